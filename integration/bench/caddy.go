package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// caddy is the binary of the repository, with the plugin.
type caddy struct {
	binary string
	env    []string // besides what all get
}

// collectSource is a file of its main package that is there only in the binary that is
// measured: see adminOf.collect.
//
//go:embed testdata/collect.go
var collectSource []byte

// buildCaddy builds it in dir. HERMES_TEST_BINARY names one to take instead.
func buildCaddy(dir string) (caddy, error) {
	if binary := os.Getenv("HERMES_TEST_BINARY"); binary != "" {
		return caddy{binary: binary}, nil
	}
	overlay, err := overlayCollect(dir)
	if err != nil {
		return caddy{}, err
	}
	c := caddy{binary: filepath.Join(dir, "caddy")}
	return c, build(c.binary, "-overlay", overlay, "./cmd/caddy")
}

// overlayCollect writes what has go build add collectSource to cmd/caddy, and returns
// the name of the file for its flag -overlay.
func overlayCollect(dir string) (string, error) {
	source, overlay := filepath.Join(dir, "collect.go"), filepath.Join(dir, "overlay.json")
	beside, err := filepath.Abs("../cmd/caddy/collect.go")
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{beside: source}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(source, collectSource, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// build builds a program of the repository with go build.
func build(binary string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", binary}, args...)...)
	cmd.Dir = ".." // go run has the module's directory as its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// variant is what stands in front of the backend.
type variant struct {
	name     string
	handlers string // in the Caddyfile, in front of reverse_proxy
}

// Those that are compared.
var (
	floor      = variant{"reverse_proxy", ""}
	plugin     = variant{"hermes", "hermes"}
	quiet      = variant{"hermes without keepalives", "hermes {\n\t\tkeepalive 0s\n\t}"}
	idleResume = variant{"hermes_resume", "hermes_resume\n\thermes"}
	resume     = variant{"hermes_resume always", "hermes_resume {\n\t\talways\n\t\tkeep 0s\n\t}\n\thermes"}
)

const caddyfile = `{
	admin %s
	persist_config off
	auto_https off
	default_bind 127.0.0.1
}
http://%s {
	%s
	reverse_proxy %s
}
`

// start starts the binary as the variant, and returns when it answers. admin is the
// address of its admin API, or "off".
func (c caddy) start(v variant, work, upstream, admin string) (*proxyProcess, error) {
	cmd, t, err := c.command(v, work, upstream, admin)
	if err != nil {
		return nil, err
	}
	return startProxy(cmd, work, t, time.Minute)
}

// command returns what start runs, and where it takes requests.
func (c caddy) command(v variant, work, upstream, admin string) (cmd *exec.Cmd, t target, err error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, t, err
	}
	listen, err := freePort()
	if err != nil {
		return nil, t, err
	}
	file := filepath.Join(work, "Caddyfile")
	if err := os.WriteFile(file, fmt.Appendf(nil, caddyfile, admin, listen, v.handlers, upstream), 0o600); err != nil {
		return nil, t, err
	}
	cmd = exec.Command(c.binary, "run", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+work, "XDG_DATA_HOME="+work, "XDG_CONFIG_HOME="+work)
	cmd.Env = append(cmd.Env, c.env...)
	return cmd, target{Addr: listen, Path: "/v1/chat/completions", Model: "hermes-agent"}, nil
}
