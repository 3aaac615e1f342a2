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

// A peer is a proxy that is measured beside ours.
type peer struct {
	name   string            // as in the table, such as "LiteLLM 1.106.2"
	path   string            // where chat completions are asked for, such as /v1/chat/completions
	header map[string]string // what the request must carry beside Content-Type; see headers
	// install gets it from its registry, in its pinned version, into dir, which is
	// kept between runs; it does nothing when it is there. nil for what is a
	// package of the system.
	install func(dir string) error
	// start returns the command that serves on listen (127.0.0.1:port) and forwards
	// to upstream (127.0.0.1:port); it may write its configuration in work, an empty
	// directory of its own. dir is install's.
	start func(dir, work, listen, upstream string) (*exec.Cmd, error)
}

// chatCompletions is where Hermes is asked.
const chatCompletions = "/v1/chat/completions"

// peerUpstream stands for the upstream's address in the header of a peer that is
// told of it by each request.
const peerUpstream = "{upstream}"

// headers is what requests must carry for this upstream.
func (p peer) headers(upstream string) map[string]string {
	all := map[string]string{}
	for k, v := range p.header {
		all[k] = strings.ReplaceAll(v, peerUpstream, upstream)
	}
	return all
}

// slug names a directory for what install gets.
func (p peer) slug() string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(p.name))
}

// peers returns what can be measured on this machine, and why the others cannot.
func peers() (can []peer, cannot map[string]string) {
	cannot = make(map[string]string)
	for _, make := range []func() (peer, error){peerNginx, peerEnvoy, peerLiteLLM, peerPortkey} {
		p, err := make()
		if err != nil {
			cannot[p.name] = err.Error()
			continue
		}
		can = append(can, p)
	}
	return can, cannot
}

// peerProgram is the path of a program of the system, and what its -v says that
// the pattern finds in it.
func peerProgram(name, pattern string) (path, version string, err error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if path, err = exec.LookPath(filepath.Join(dir, name)); err == nil {
			break
		}
	}
	if path == "" {
		return "", "", fmt.Errorf("the PATH has no %s", name)
	}
	out, err := exec.Command(path, "-v").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s -v: %w", name, err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(out)
	if found == nil {
		return "", "", fmt.Errorf("%s -v does not tell its version", name)
	}
	return path, string(found[1]), nil
}

// peerStreams is how many streams a peer is configured for, where one says so.
const peerStreams = 4096

// peerCommand runs a program in work with as many open files as the system allows,
// and with an environment that holds nothing of the caller's but the PATH.
func peerCommand(work string, env []string, program string, args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{"-c", `ulimit -S -n "$(ulimit -H -n)"; exec "$0" "$@"`, program}, args...)...)
	cmd.Dir = work
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + work, "LANG=C.UTF-8", "NO_PROXY=*", "DO_NOT_TRACK=1",
	}, env...)
	return cmd
}

// peerConfig writes a configuration and returns its path.
func peerConfig(work, name, text string) (string, error) {
	path := filepath.Join(work, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// peerFill puts the addresses into the text of a configuration.
func peerFill(text, listen, upstream string) (string, error) {
	host, port, err := peerSplit(listen)
	if err != nil {
		return "", err
	}
	upHost, upPort, err := peerSplit(upstream)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("LISTEN_HOST", host, "LISTEN_PORT", port, "LISTEN", listen,
		"UPSTREAM_HOST", upHost, "UPSTREAM_PORT", upPort, "UPSTREAM", upstream,
		"STREAMS", fmt.Sprint(peerStreams)).Replace(text), nil
}

// peerSplit is host and port of an address on loopback.
func peerSplit(addr string) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(addr); err != nil {
		return "", "", err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", "", fmt.Errorf("%s is not on loopback", addr)
	}
	return host, port, nil
}
