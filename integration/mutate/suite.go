//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

	together string // the binary with many mutants, empty when there is none
}

// test is one of them, with its subtests.
type test struct {
	name   string
	takes  time.Duration
	covers blocks
	alone  bool // it fails in the binary with many mutants whichever it is
}

// slow is what a test takes that runs by itself, after the others.
const slow = 250 * time.Millisecond

// newSuite runs the tests of p as they are, and finds what each takes and covers.
func newSuite(ctx context.Context, p *code, all []*mutant, quick bool) (*suite, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	s := &suite{p: p, tmp: tmp, quick: quick}
	if err := s.measure(ctx); err != nil {
		s.close()
		return nil, err
	}
	if err := s.buildTogether(ctx, all); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// buildTogether builds the binary with many mutants, and finds the tests that fail in it
// although none of them is on: those that count allocations.
func (s *suite) buildTogether(ctx context.Context, all []*mutant) error {
	out := map[*mutant]bool{}
	for range 20 {
		replace := map[string]string{filepath.Join(s.p.dir, "mutants_of_all.go"): filepath.Join(s.tmp, "switches.go")}
		files := map[string][]byte{"switches.go": fmt.Appendf(nil, switches, s.p.types.Name())}
		for name, text := range s.p.together(all, out) {
			files[filepath.Base(name)] = text
			replace[name] = filepath.Join(s.tmp, filepath.Base(name))
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(s.tmp, name), text, 0o600); err != nil {
				return err
			}
		}
		s.together = filepath.Join(s.tmp, "together")
		message, err := s.buildWith(ctx, s.together, replace)
		if err == nil {
			return s.findAlone(ctx)
		}
		bad := refused(all, s.p.fset, message)
		if len(bad) == 0 {
			return fmt.Errorf("the binary with many mutants: %w\n%s", err, message)
		}
		for _, m := range bad {
			out[m] = true
		}
	}
	return errors.New("the binary with many mutants does not compile")
}

func (s *suite) findAlone(ctx context.Context) error {
	var patterns []string
	for _, t := range s.tests {
		patterns = append(patterns, t.pattern())
	}
	c := exec.CommandContext(ctx, s.together, "-test.v", "-test.run", strings.Join(patterns, "|"))
	c.Dir = s.p.dir
	text, _ := c.CombinedOutput() // some may fail
	passed := map[string]bool{}
	for _, found := range passes.FindAllSubmatch(text, -1) {
		passed[string(found[1])] = true
	}
	for _, t := range s.tests {
		t.alone = !passed[t.name]
	}
	return nil
}

var passes = regexp.MustCompile(`(?m)^--- PASS: (\S+) \(([0-9.]+)s\)$`)

func (s *suite) close() { os.RemoveAll(s.tmp) }

func (s *suite) measure(ctx context.Context) error {
	plain, covering := filepath.Join(s.tmp, "plain"), filepath.Join(s.tmp, "covering")
	if out, err := s.build(ctx, plain); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	if out, err := s.build(ctx, covering, "-cover", "-covermode=set"); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	c := exec.CommandContext(ctx, plain, "-test.v")
	c.Dir = s.p.dir
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out[max(0, len(out)-2000):])
	}
	for _, found := range passes.FindAllSubmatch(out, -1) {
		seconds, _ := strconv.ParseFloat(string(found[2]), 64)
		t := &test{name: string(found[1]), takes: time.Duration(seconds * float64(time.Second))}
		if s.quick && t.takes >= slow {
			continue
		}
		profile := filepath.Join(s.tmp, "profile")
		c := exec.CommandContext(ctx, covering, "-test.run", t.pattern(), "-test.coverprofile", profile)
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

func (s *suite) build(ctx context.Context, to string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-buildvcs=false", "-ldflags=-s -w", "-o", to}, flags...)
	c := exec.CommandContext(ctx, "go", append(args, s.p.path)...)
	c.Dir = s.p.root
	return c.CombinedOutput()
}

// try runs the tests that cover the place of m, until one fails: the quick ones
// together, then the slow ones one by one, and those that have to be compiled with it
// alone.
func (s *suite) try(ctx context.Context, m *mutant) (result, by string, err error) {
	var there, alone []*test
	for _, t := range s.tests {
		switch {
		case t.covers != nil && !t.covers.has(m):
		case m.number == 0 || t.alone:
			alone = append(alone, t)
		default:
			there = append(there, t)
		}
	}
	if len(there)+len(alone) == 0 {
		return survived, "no test comes here", nil
	}
	result, by = s.runAll(ctx, s.together, m.number, there)
	if result != survived || len(alone) == 0 {
		return result, by, nil
	}
	file, binary := filepath.Join(s.tmp, "mutant.go"), filepath.Join(s.tmp, "mutant")
	if err := os.WriteFile(file, m.bytes(), 0o600); err != nil {
		return "", "", err
	}
	if out, err := s.buildWith(ctx, binary, map[string]string{m.file: file}); err != nil {
		line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n\n")
		return unviable, strings.ReplaceAll(line, "\n", " "), nil
	}
	result, by = s.runAll(ctx, binary, 0, alone)
	return result, by, nil
}

// buildWith builds the tests with other files in the place of some.
func (s *suite) buildWith(ctx context.Context, to string, replace map[string]string) ([]byte, error) {
	overlay := filepath.Join(s.tmp, "overlay.json")
	list, _ := json.Marshal(map[string]map[string]string{"Replace": replace}) // strings cannot fail
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return nil, err
	}
	return s.build(ctx, to, "-overlay", overlay, "-gcflags=-e")
}

func (s *suite) runAll(ctx context.Context, binary string, number int, tests []*test) (result, by string) {
	first := len(tests)
	for i, t := range tests { // which are in the order of what they take
		if t.takes >= slow {
			first = i
			break
		}
	}
	result, by = s.run(ctx, binary, number, tests[:first])
	for _, t := range tests[first:] {
		if result != survived {
			break
		}
		result, by = s.run(ctx, binary, number, []*test{t})
	}
	return result, by
}

// run runs the tests and returns what came of it and which of them failed. What is
// bounded first is the time of the processor, which is the same on a busy machine.
func (s *suite) run(ctx context.Context, binary string, number int, tests []*test) (result, by string) {
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
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	limits := fmt.Sprintf("ulimit -t %d -v %d; exec \"$0\" \"$@\"", cpu, 8<<20)
	c := exec.CommandContext(ctx, "bash", "-c", limits, binary, "-test.failfast", "-test.run", strings.Join(patterns, "|"))
	c.Dir, c.Env = s.p.dir, append(os.Environ(), "MUTANT="+strconv.Itoa(number))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	if err == nil {
		return survived, ""
	}
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return timeout, ""
	}
	if bytes.Contains(out, []byte(offTheEnd)) {
		return unviable, offTheEnd
	}
	found := regexp.MustCompile(`(?m)^(--- FAIL: \S+|panic: .*|fatal error: .*|runtime: .*)`).Find(out)
	return killed, string(found)
}
