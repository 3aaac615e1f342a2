package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/freeport"
)

// The cores: the proxy has one for itself, and backend and clients share another.
const (
	proxyCore  = 0
	othersCore = 1
)

// A proxyProcess is a running proxy. Without a command it is the backend itself.
type proxyProcess struct {
	cmd    *exec.Cmd
	target target
}

// startProxy starts a proxy that takes requests at the target, on a core of its own, and returns
// when it answers them. Its log is a file in work.
func startProxy(cmd *exec.Cmd, work string, t target, patience time.Duration) (*proxyProcess, error) {
	log, err := os.Create(filepath.Join(work, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := startOn(proxyCore, cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	p := &proxyProcess{cmd, t}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err = firstByte(t, 0); err == nil {
			return p, nil
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			p.stop()
			return nil, fmt.Errorf("%s does not answer: %w\n%s", cmd.Path, err, said[max(0, len(said)-4000):])
		}
	}
}

func (p *proxyProcess) stop() {
	if p != nil && p.cmd != nil {
		kill(p.cmd)
	}
}

// measure does the job with the proxy, and returns the CPU time that a chunk took it.
func (p *proxyProcess) measure(j job) (r report, cpu time.Duration) {
	clock := func() time.Duration {
		if p.cmd == nil {
			return 0
		}
		return cpuOf(p.cmd.Process.Pid)
	}
	j.Target = p.target
	before := clock()
	r = j.run()
	return r, (clock() - before) / time.Duration(j.chunks())
}

// freePort returns an address that is free now.
func freePort() (string, error) {
	addr, _, err := freeport.Take()
	return addr, err
}
