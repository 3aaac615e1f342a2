package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/freeport"
)

// The cores: the proxy has one for itself, and backend and clients share another.
const (
	proxyCore  = 0
	othersCore = 1
)

// A role is this program as another process.
const (
	roleUpstream = "upstream"
	roleClient   = "client"
	roleSoaker   = "soaker"
	roleTurns    = "turns"
)

// self starts this program in a role, on the core of those.
func self(role string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader, err error) {
	path, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(path, role)
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewReader(stdout), startOn(othersCore, cmd)
}

// backend is a running upstream.
type backend struct {
	addr string
	stop func()
}

func startBackend() (*backend, error) {
	cmd, in, out, err := self(roleUpstream)
	if err != nil {
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	addr, err := out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	return &backend{strings.TrimSpace(addr), func() { in.Close(); kill(cmd) }}, nil
}

// state asks the backend what it has done.
func (b *backend) state() (s upstreamState, err error) {
	res, err := http.Get("http://" + b.addr + "/state")
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	return s, json.NewDecoder(res.Body).Decode(&s)
}

// load is a running client.
type load struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startLoad(j job) (*load, error) { return startRole(roleClient, j) }

// startRole starts a client and gives it its job.
func startRole(role string, j any) (*load, error) {
	cmd, in, out, err := self(role)
	if err != nil {
		return nil, fmt.Errorf("starting the client: %w", err)
	}
	if err := json.NewEncoder(in).Encode(j); err != nil {
		return nil, err
	}
	return &load{cmd, in, out}, nil
}

// opened waits until all streams that do not end have come.
func (l *load) opened() error {
	line, err := l.out.ReadString('\n')
	if err == nil && line != "open\n" {
		err = fmt.Errorf("the client says %s", line)
	}
	return err
}

// finish waits for the end, and returns what the client says.
func (l *load) finish() (r report, err error) {
	defer kill(l.cmd)
	if err := json.NewDecoder(l.out).Decode(&r); err != nil {
		return r, fmt.Errorf("the client broke off: %w", err)
	}
	return r, nil
}

// run does a job of streams that end by themselves.
func run(j job) (report, error) {
	l, err := startLoad(j)
	if err != nil {
		return report{}, err
	}
	return l.finish()
}

// proxyProcess is a running proxy.
type proxyProcess struct {
	cmd    *exec.Cmd
	log    string
	target target
}

// startPoll is how often a proxy that is starting is asked whether it answers.
const startPoll = 50 * time.Millisecond

// startProxy starts a proxy that takes requests at the target, on a core of its
// own, and returns when it answers them. What it logs goes to a file in work.
func startProxy(cmd *exec.Cmd, work string, t target, patience time.Duration) (*proxyProcess, error) {
	p, err := launchProxy(cmd, work, t)
	if err != nil {
		return nil, err
	}
	if err := p.await(patience, startPoll); err != nil {
		return nil, err
	}
	return p, nil
}

// launchProxy does the same without waiting for an answer.
func launchProxy(cmd *exec.Cmd, work string, t target) (*proxyProcess, error) {
	p := &proxyProcess{cmd: cmd, target: t, log: filepath.Join(work, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := startOn(proxyCore, cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// await waits until the proxy answers, and asks it so often. One that does not is stopped.
func (p *proxyProcess) await(patience, every time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(every) {
		err := p.answers()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(p.log)
			p.stop()
			return fmt.Errorf("%s does not answer: %w\n%s", p.cmd.Path, err, said[max(0, len(said)-4000):])
		}
	}
}

func (p *proxyProcess) stop() { kill(p.cmd) }

// answers asks for a stream of one chunk.
func (p *proxyProcess) answers() error {
	c, err := net.DialTimeout("tcp", p.target.Addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	k := check{s: scenario{kind: clean, chunks: 1, end: endsWell}, latency: new(sample)}
	a, err := get(c, p.target, k.s.request(p.target.Model))
	if err != nil {
		return err
	}
	if a.status != 200 {
		body, _ := io.ReadAll(io.LimitReader(a, 400))
		return fmt.Errorf("status %d: %s", a.status, body)
	}
	if err := eachEvent(a, func(e event) error { return k.event(e, time.Now()) }); err != nil {
		return err
	}
	return k.complete()
}

// freePort returns an address that is free now.
func freePort() (string, error) {
	addr, _, err := freeport.Take()
	return addr, err
}
