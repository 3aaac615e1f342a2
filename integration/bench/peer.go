package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// chatCompletions is where Hermes is asked.
const chatCompletions = "/v1/chat/completions"

// A peer is a proxy that is measured beside the sidecar, as peers/run.sh starts it. Each has one
// worker, nothing buffered, ten minutes of silence, and no log of requests; gateways have no
// database and no retries.
type peer struct {
	id     string            // of run.sh
	name   string            // as in the table, such as "LiteLLM 1.106.2"
	header map[string]string // of requests, beside Content-Type, where UPSTREAM is the backend's address
}

// do returns a command of run.sh about the peer.
func (p peer) do(args ...string) *exec.Cmd {
	script, _ := filepath.Abs("bench/peers/run.sh") // go run has the module's directory as its own
	return exec.Command("/bin/sh", append([]string{script, p.id}, args...)...)
}

// peers returns those that can be measured on this machine, and why the others cannot.
func peers() (can []peer, cannot map[string]string) {
	cannot = make(map[string]string)
	for _, p := range []peer{
		{id: "nginx"}, {id: "envoy"},
		{id: "litellm", header: map[string]string{"Authorization": "Bearer sk-of-a-benchmark-on-loopback"}},
		{id: "portkey", header: map[string]string{"x-portkey-provider": "openai", "x-portkey-custom-host": "http://UPSTREAM/v1", "Authorization": "Bearer none"}},
	} {
		said, err := p.do("name").CombinedOutput()
		if p.name = strings.TrimSpace(string(said)); err != nil {
			cannot[p.id] = p.name
			continue
		}
		can = append(can, p)
	}
	return can, cannot
}

// startPeer installs a peer, and starts it with nothing of this environment but the PATH.
func (b *beside) startPeer(p peer) (*proxyProcess, error) {
	dir, own := filepath.Join(b.install, p.id), filepath.Join(b.work, p.id)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	if out, err := p.do("install", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("installing it: %w\n%s", err, out)
	}
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := p.do("start", dir, own, listen, b.backend)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own, "TMPDIR=" + own, "LANG=C.UTF-8", "NO_PROXY=*", "DO_NOT_TRACK=1"}
	header := make(map[string]string)
	for k, v := range p.header {
		header[k] = strings.ReplaceAll(v, "UPSTREAM", b.backend)
	}
	return startProxy(cmd, own, target{Addr: listen, Header: header}, 2*time.Minute)
}
