package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// roles are what this program does as another process.
var roles map[string]func() error

func init() {
	roles = map[string]func() error{
		"upstream": runUpstream, "client": role(runJob), "turns": role(takeTurns), "soaker": role(besiege),
	}
}

// role returns what a process does that reads a job from standard input, and writes what came of
// it to standard output.
func role[Job, Result any](do func(Job, *bufio.Reader) (Result, error)) func() error {
	return func() error {
		in := bufio.NewReader(os.Stdin)
		var j Job
		line, err := in.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &j)
		}
		if err != nil {
			return fmt.Errorf("reading the job: %w", err)
		}
		r, err := do(j, in)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	}
}

// A worker is this program in a role.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWorker(role string) (*worker, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(othersCore, cmd); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", role, err)
	}
	return &worker{cmd, in, bufio.NewReader(out)}, nil
}

func startBackend() (addr string, stop func(), err error) {
	w, err := startWorker("upstream")
	if err != nil {
		return "", nil, err
	}
	addr, err = w.out.ReadString('\n')
	return strings.TrimSpace(addr), func() { w.in.Close(); kill(w.cmd) }, err
}

// give gives a new worker its job.
func give(role string, job any) (*worker, error) {
	w, err := startWorker(role)
	if err != nil {
		return nil, err
	}
	return w, json.NewEncoder(w.in).Encode(job)
}

// opened waits until all streams that do not end have come.
func (w *worker) opened() error {
	late := time.AfterFunc(5*time.Minute, func() { kill(w.cmd) })
	defer late.Stop()
	line, err := w.out.ReadString('\n')
	if err == nil && line != "open\n" {
		err = fmt.Errorf("the client says %s", line)
	}
	return err
}

// finish waits for the worker's end, and reads its result.
func (w *worker) finish(result any) error {
	defer kill(w.cmd)
	if err := json.NewDecoder(w.out).Decode(result); err != nil {
		return fmt.Errorf("the client broke off: %w", err)
	}
	return nil
}

// run has a worker do a job that ends by itself.
func run[Result any](role string, job any) (r Result, err error) {
	w, err := give(role, job)
	if err != nil {
		return r, err
	}
	return r, w.finish(&r)
}

// whileOpen opens streams that do not end, and calls look when all of them have come.
func whileOpen(j job, look func() error) error {
	j.Scenario.End = endsNever
	w, err := give("client", j)
	if err != nil {
		return err
	}
	if err := w.opened(); err != nil {
		kill(w.cmd)
		return err
	}
	err = look()
	w.in.Close()
	var r report
	return errors.Join(err, w.finish(&r), r.failed())
}

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
func (p *proxyProcess) measure(j job) (r report, cpu time.Duration, err error) {
	clock := func() time.Duration {
		if p.cmd == nil {
			return 0
		}
		return cpuOf(p.cmd.Process.Pid)
	}
	j.Target = p.target
	before := clock()
	r, err = run[report]("client", j)
	return r, (clock() - before) / time.Duration(j.chunks()), err
}

// freePort returns an address that is free now.
func freePort() (string, error) {
	addr, _, err := freeport.Take()
	return addr, err
}
