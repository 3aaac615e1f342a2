package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suite is the tests of a package.
type suite struct {
	p     *code
	tmp   string
	quick bool    // the slow ones are left out
	tests []*test // the quickest first
}

// test is one of them, with its subtests.
type test struct {
	name   string
	takes  time.Duration
	covers blocks
}

// slow is what a test takes that runs by itself, after the others.
const slow = 250 * time.Millisecond

// newSuite runs the tests of p as they are, and finds what each takes and covers.
func newSuite(p *code, quick bool) (*suite, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	s := &suite{p: p, tmp: tmp, quick: quick}
	if err := s.measure(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *suite) close() { os.RemoveAll(s.tmp) }

func (s *suite) measure() error {
	plain, covering := filepath.Join(s.tmp, "plain"), filepath.Join(s.tmp, "covering")
	if out, err := s.build(plain); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	if out, err := s.build(covering, "-cover", "-covermode=set"); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	c := exec.Command(plain, "-test.v")
	c.Dir = s.p.dir
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out[max(0, len(out)-2000):])
	}
	for _, found := range regexp.MustCompile(`(?m)^--- PASS: (\S+) \(([0-9.]+)s\)$`).FindAllSubmatch(out, -1) {
		seconds, _ := strconv.ParseFloat(string(found[2]), 64)
		t := &test{name: string(found[1]), takes: time.Duration(seconds * float64(time.Second))}
		if s.quick && t.takes >= slow {
			continue
		}
		profile := filepath.Join(s.tmp, "profile")
		c := exec.Command(covering, "-test.run", t.pattern(), "-test.coverprofile", profile)
		c.Dir = s.p.dir
		if c.Run() == nil { // otherwise it is taken to cover all
			if t.covers, err = readBlocks(profile); err != nil {
				return err
			}
		}
		s.tests = append(s.tests, t)
	}
	slices.SortStableFunc(s.tests, func(a, b *test) int { return int(a.takes - b.takes) })
	fmt.Printf("%s: %d tests\n", s.p.path, len(s.tests))
	return nil
}

func (t *test) pattern() string { return "^" + regexp.QuoteMeta(t.name) + "$" }

func (s *suite) build(to string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-buildvcs=false", "-ldflags=-s -w", "-o", to}, flags...)
	c := exec.Command("go", append(args, s.p.path)...)
	c.Dir = s.p.root
	return c.CombinedOutput()
}

// try builds m and runs the tests that cover its place, until one fails: the quick
// ones together, then the slow ones one by one.
func (s *suite) try(m *mutant) (result, by string, err error) {
	var quick, late []*test
	for _, t := range s.tests {
		switch {
		case t.covers != nil && !t.covers.has(m):
		case t.takes < slow:
			quick = append(quick, t)
		default:
			late = append(late, t)
		}
	}
	if len(quick)+len(late) == 0 {
		return survived, "no test comes here", nil
	}
	file, overlay, binary := filepath.Join(s.tmp, "mutant.go"), filepath.Join(s.tmp, "overlay.json"), filepath.Join(s.tmp, "mutant")
	if err := os.WriteFile(file, m.bytes(), 0o600); err != nil {
		return "", "", err
	}
	list, _ := json.Marshal(map[string]map[string]string{"Replace": {m.file: file}}) // strings cannot fail
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", "", err
	}
	if out, err := s.build(binary, "-overlay", overlay); err != nil {
		line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n\n")
		return unviable, line, nil
	}
	result, by = s.run(binary, quick)
	for _, t := range late {
		if result != survived {
			break
		}
		result, by = s.run(binary, []*test{t})
	}
	return result, by, nil
}

// run runs the tests and returns what came of it and which of them failed. What is
// bounded first is the time of the processor, which is the same on a busy machine.
func (s *suite) run(binary string, tests []*test) (result, by string) {
	if len(tests) == 0 {
		return survived, ""
	}
	var takes time.Duration
	var patterns []string
	for _, t := range tests {
		takes += t.takes
		patterns = append(patterns, t.pattern())
	}
	cpu := 4 + int(6*takes.Seconds())
	wall := 30*time.Second + 20*takes
	ctx, cancel := context.WithTimeout(context.Background(), wall)
	defer cancel()
	limits := fmt.Sprintf("ulimit -t %d -v %d; exec \"$0\" \"$@\"", cpu, 8<<20)
	c := exec.CommandContext(ctx, "bash", "-c", limits, binary, "-test.failfast", "-test.run", strings.Join(patterns, "|"))
	c.Dir = s.p.dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	if err == nil {
		return survived, ""
	}
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return timeout, ""
	}
	found := regexp.MustCompile(`(?m)^(--- FAIL: \S+|panic: .*|fatal error: .*|runtime: .*)`).Find(out)
	return killed, string(found)
}
