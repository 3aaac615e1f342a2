package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A caddy is the binary of the repository, with the plugin.
type caddy struct {
	binary string
	env    []string // besides what all get
}

// collectSource is a file of the main package in the binary that is measured only. It has the
// admin API collect garbage and return free memory to the system.
//
//go:embed testdata/collect.go
var collectSource []byte

// buildCaddy builds it in dir. HERMES_TEST_BINARY names one to take instead.
func buildCaddy(dir string) (caddy, error) {
	if binary := os.Getenv("HERMES_TEST_BINARY"); binary != "" {
		return caddy{binary: binary}, nil
	}
	source, overlay := filepath.Join(dir, "collect.go"), filepath.Join(dir, "overlay.json")
	place, err := filepath.Abs("../cmd/caddy/collect.go")
	if err != nil {
		return caddy{}, err
	}
	replace := encoded(map[string]any{"Replace": map[string]string{place: source}})
	if err := errors.Join(os.WriteFile(source, collectSource, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return caddy{}, err
	}
	c := caddy{binary: filepath.Join(dir, "caddy")}
	return c, build(c.binary, "-overlay", overlay, "./cmd/caddy")
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

// A variant is a configuration in front of the backend.
type variant struct {
	name     string
	handlers string // in the Caddyfile, before reverse_proxy
}

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

// A running Caddy serves a variant, and has an admin API.
type running struct {
	*proxyProcess
	admin, file string // the API's address, and the Caddyfile
}

// start starts the binary as the variant, and returns when it answers.
func (s stage) start(v variant) (r running, err error) {
	work, err := os.MkdirTemp(s.work, "caddy-")
	if err != nil {
		return r, err
	}
	listen, err := freePort()
	if err == nil {
		r.admin, err = freePort()
	}
	if err != nil {
		return r, err
	}
	r.file = filepath.Join(work, "Caddyfile")
	if err := os.WriteFile(r.file, fmt.Appendf(nil, caddyfile, r.admin, listen, v.handlers, s.backend), 0o600); err != nil {
		return r, err
	}
	cmd := exec.Command(s.caddy.binary, "run", "--config", r.file)
	cmd.Env = append(os.Environ(), "HOME="+work, "XDG_DATA_HOME="+work, "XDG_CONFIG_HOME="+work)
	cmd.Env = append(cmd.Env, s.caddy.env...)
	r.proxyProcess, err = startProxy(cmd, work, target{Addr: listen}, time.Minute)
	return r, err
}

// weigh returns the resident memory of the process without files, in bytes, after collections that
// have returned free memory to the system. Three of them halve the stacks that are too large, and
// empty the pools.
func (r running) weigh() (float64, error) {
	for range 3 {
		if _, err := r.get("/collect"); err != nil {
			return 0, fmt.Errorf("the binary must be the one that bench builds itself, without HERMES_TEST_BINARY: %w", err)
		}
	}
	return float64(anonymousOf(r.cmd.Process.Pid)), nil
}

// gauges returns the metrics without labels after a collection.
func (r running) gauges() (map[string]float64, error) {
	if _, err := r.get("/debug/pprof/heap?gc=1&debug=1"); err != nil {
		return nil, err
	}
	text, err := r.get("/metrics")
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return values, err
}

func (r running) get(path string) (string, error) { return body(http.Get("http://" + r.admin + path)) }

// body returns the body of an answer, which must have the status 200.
func body(res *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", res.Request.URL.Path, res.Status, b)
	}
	return string(b), err
}

// reload loads the configuration, for the nth time, with another keepalive.
func (r running) reload(n int) error {
	b, err := os.ReadFile(r.file)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(b), "\thermes\n", fmt.Sprintf("\thermes {\n\t\tkeepalive %ds\n\t}\n", 10+n%2), 1)
	_, err = body(http.Post("http://"+r.admin+"/load", "text/caddyfile", strings.NewReader(changed)))
	return err
}
