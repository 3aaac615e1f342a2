package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// peerLocks are the pinned requirements of the peers.
//
//go:embed peers
var peerLocks embed.FS

// peerPatience bounds one step of an installation.
const peerPatience = 15 * time.Minute

// peerPinned is the version of a package in a file of requirements.
func peerPinned(lock, name string) string {
	b, err := peerLocks.ReadFile(path.Join("peers", lock))
	if err != nil {
		return ""
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `==(\S+)$`).FindSubmatch(b)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// peerOnce does the work of an installation unless a file in dir says that this
// very lock has been installed there.
func peerOnce(dir string, lock []byte, work func() error) error {
	stamp := filepath.Join(dir, "installed.txt")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return os.WriteFile(stamp, lock, 0o644)
}

// peerRun runs a step of an installation.
func peerRun(dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), peerPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// peerPython is a Python that the requirements were resolved for.
func peerPython() (string, error) {
	for _, name := range []string{"python3.11", "python3.12", "python3"} {
		if exec.Command(name, "-c", "import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 13))").Run() == nil {
			return name, nil
		}
	}
	return "", errors.New("it needs Python 3.11 or 3.12, with venv")
}

// peerVenv installs requirements in a virtual environment of their own.
func peerVenv(lock string) func(dir string) error {
	return func(dir string) error {
		b, err := peerLocks.ReadFile(path.Join("peers", lock))
		if err != nil {
			return err
		}
		return peerOnce(dir, b, func() error {
			python, err := peerPython()
			if err != nil {
				return err
			}
			requirements := filepath.Join(dir, lock)
			if err := os.WriteFile(requirements, b, 0o644); err != nil {
				return err
			}
			if _, err := peerRun(dir, python, "-m", "venv", "venv"); err != nil {
				return err
			}
			_, err = peerRun(dir, "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps", "-r", requirements)
			return err
		})
	}
}

// peerModules installs what the package-lock.json in a directory of peers/ names.
func peerModules(name string) func(dir string) error {
	return func(dir string) error {
		files, err := fs.Sub(peerLocks, path.Join("peers", name))
		if err != nil {
			return err
		}
		lock, err := fs.ReadFile(files, "package-lock.json")
		if err != nil {
			return err
		}
		return peerOnce(dir, lock, func() error {
			if err := os.CopyFS(dir, files); err != nil {
				return err
			}
			_, err = peerRun(dir, "npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund")
			return err
		})
	}
}
