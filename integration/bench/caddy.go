package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// caddy is the binary of the repository, with the plugin.
type caddy struct{ binary string }

// buildCaddy builds it in dir. HERMES_TEST_BINARY names one to take instead.
func buildCaddy(dir string) (caddy, error) {
	if binary := os.Getenv("HERMES_TEST_BINARY"); binary != "" {
		return caddy{binary}, nil
	}
	c := caddy{filepath.Join(dir, "caddy")}
	cmd := exec.Command("go", "build", "-o", c.binary, "./cmd/caddy")
	cmd.Dir = ".." // go run has the module's directory as its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return c, fmt.Errorf("building ./cmd/caddy: %w\n%s", err, out)
	}
	return c, nil
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

// start starts the binary as the variant. admin is the address of its admin API,
// or "off".
func (c caddy) start(v variant, work, upstream, admin string) (*proxyProcess, error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(work, "Caddyfile")
	if err := os.WriteFile(file, fmt.Appendf(nil, caddyfile, admin, listen, v.handlers, upstream), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(c.binary, "run", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+work, "XDG_DATA_HOME="+work, "XDG_CONFIG_HOME="+work)
	return startProxy(cmd, work, target{Addr: listen, Path: "/v1/chat/completions", Model: "hermes-agent"}, time.Minute)
}
