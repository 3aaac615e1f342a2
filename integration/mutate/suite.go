//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suite is the tests of a tree: of the packages of a pattern and those beside, above
// and below them.
type suite struct {
	root, tree string
	tmp        string
	quick      bool // the slow ones are left out
	packages   []*tested
	tests      []*test // the quickest first
}

// tested is a package that has tests, and binary the name of theirs.
type tested struct{ path, dir, binary string }

// test is one of them, with its subtests.
type test struct {
	in     *tested
	name   string
	takes  time.Duration
	covers blocks
	alone  bool // it fails in the binary with many mutants whichever it is
}

// slow is what a test takes that runs by itself, after the others.
const slow = 250 * time.Millisecond

// The directories of binaries: of the code as it is, for a cover profile, with many
// mutants, and with one.
const plain, covering, together, alone = "plain", "covering", "together", "alone"

// newSuite runs the tests of the tree of a pattern as they are, finds what each takes
// and covers, and builds them with the mutants of the packages.
func newSuite(ctx context.Context, root, pattern string, packages []*code, all []*mutant, quick bool) (*suite, error) {
	top, _, _ := strings.Cut(strings.TrimSuffix(path.Clean(pattern), "..."), "/")
	s := &suite{root: root, tree: "./" + path.Join(top, "..."), quick: quick}
	listed, err := goList(root, s.tree)
	if err != nil {
		return nil, err
	}
	for _, l := range listed {
		if len(l.TestGoFiles)+len(l.XTestGoFiles) > 0 {
			s.packages = append(s.packages, &tested{l.ImportPath, l.Dir, path.Base(l.ImportPath) + ".test"})
		}
	}
	if s.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return nil, err
	}
	if err = s.measure(ctx); err == nil {
		err = s.buildTogether(ctx, packages, all)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *suite) close() { os.RemoveAll(s.tmp) }

// buildTogether builds the binaries with many mutants, and finds the tests that fail in
// them although none of the mutants is on: those that count allocations.
func (s *suite) buildTogether(ctx context.Context, packages []*code, all []*mutant) error {
	files, last := map[string][]byte{}, 0
	for _, p := range packages {
		own, err := p.together(all, &last)
		if err != nil {
			return err
		}
		maps.Copy(files, own)
	}
	if out, err := s.build(ctx, together, files, s.packages); err != nil {
		return fmt.Errorf("the tests with many mutants: %w\n%s", err, out)
	}
	for _, in := range s.packages {
		var tests []*test
		for _, t := range s.tests {
			if t.in == in {
				tests = append(tests, t)
			}
		}
		out, _ := s.command(ctx, together, in, "-test.v", "-test.run", pattern(tests...)).CombinedOutput() // some may fail
		passed := map[string]bool{}
		for _, found := range passes.FindAllSubmatch(out, -1) {
			passed[string(found[1])] = true
		}
		for _, t := range tests {
			t.alone = !passed[t.name]
		}
	}
	return nil
}

var passes = regexp.MustCompile(`(?m)^--- PASS: (\S+) \(([0-9.]+)s\)$`)

func (s *suite) measure(ctx context.Context) error {
	if out, err := s.build(ctx, plain, nil, s.packages); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	if out, err := s.build(ctx, covering, nil, s.packages, "-cover", "-covermode=set", "-coverpkg="+s.tree); err != nil {
		return fmt.Errorf("the tests do not compile: %w\n%s", err, out)
	}
	for _, in := range s.packages {
		out, err := s.command(ctx, plain, in, "-test.v").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: the tests fail without a mutant: %w\n%s", in.path, err, out[max(0, len(out)-2000):])
		}
		for _, found := range passes.FindAllSubmatch(out, -1) {
			seconds, _ := strconv.ParseFloat(string(found[2]), 64)
			t := &test{in: in, name: string(found[1]), takes: time.Duration(seconds * float64(time.Second))}
			if s.quick && t.takes >= slow {
				continue
			}
			profile := filepath.Join(s.tmp, "profile")
			if s.command(ctx, covering, in, "-test.run", pattern(t), "-test.coverprofile", profile).Run() == nil { // otherwise it is taken to cover all
				if t.covers, err = readBlocks(profile); err != nil {
					return err
				}
			}
			s.tests = append(s.tests, t)
		}
	}
	slices.SortStableFunc(s.tests, func(a, b *test) int { return cmp.Compare(a.takes, b.takes) })
	fmt.Printf("%s: %d tests\n", s.tree, len(s.tests))
	return nil
}

// pattern returns a pattern for -test.run that the tests match, and no others.
func pattern(tests ...*test) string {
	var names []string
	for _, t := range tests {
		names = append(names, "^"+regexp.QuoteMeta(t.name)+"$")
	}
	return strings.Join(names, "|")
}

// build builds the tests of packages in a directory, with other files in the place of
// some.
func (s *suite) build(ctx context.Context, to string, files map[string][]byte, packages []*tested, flags ...string) ([]byte, error) {
	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(s.tmp, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		replace[name] = file
	}
	overlay := filepath.Join(s.tmp, "overlay.json")
	list, _ := json.Marshal(map[string]map[string]string{"Replace": replace}) // strings cannot fail
	if err := errors.Join(os.WriteFile(overlay, list, 0o600), os.MkdirAll(filepath.Join(s.tmp, to), 0o700)); err != nil {
		return nil, err
	}
	args := append([]string{"test", "-c", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", filepath.Join(s.tmp, to)}, flags...)
	for _, in := range packages {
		args = append(args, in.path)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = s.root
	return c.CombinedOutput()
}

// command returns that which runs tests of a package.
func (s *suite) command(ctx context.Context, dir string, in *tested, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.tmp, dir, in.binary), args...)
	c.Dir = in.dir
	return c
}

// try runs the tests that cover the place of m, until one fails: first those that are
// compiled already, then those that have to be compiled with it alone.
func (s *suite) try(ctx context.Context, m *mutant) (result, by string, err error) {
	var there, compiled []*test
	for _, t := range s.tests {
		switch {
		case t.covers != nil && !t.covers.has(m):
		case m.number == 0 || t.alone:
			compiled = append(compiled, t)
		default:
			there = append(there, t)
		}
	}
	if len(there)+len(compiled) == 0 {
		return survived, "no test comes here", nil
	}
	for _, next := range s.steps(m, there) {
		if result, by = s.run(ctx, together, m.number, next); result != survived {
			return result, by, nil
		}
	}
	built := map[*tested]bool{}
	for _, next := range s.steps(m, compiled) {
		if !built[next.in] {
			built[next.in] = true
			if out, err := s.build(ctx, alone, map[string][]byte{m.file: m.bytes()}, []*tested{next.in}); err != nil {
				line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n\n")
				return unviable, strings.ReplaceAll(line, "\n", " "), nil
			}
		}
		if result, by = s.run(ctx, alone, 0, next); result != survived {
			return result, by, nil
		}
	}
	return survived, "", nil
}

// step is tests of a package that run at once, and how long they take.
type step struct {
	in    *tested
	tests []*test
	takes time.Duration
	order int
}

// steps puts tests in the order in which they run: the quick ones of the package of m,
// those of each other package, and the slow ones one by one.
func (s *suite) steps(m *mutant, tests []*test) (all []*step) {
	for _, in := range s.packages {
		quick := &step{in: in, order: 1}
		if in.path == m.in.path {
			quick.order = 0
		}
		for _, t := range tests {
			switch {
			case t.in != in:
			case t.takes >= slow:
				all = append(all, &step{in, []*test{t}, t.takes, 2})
			default:
				quick.tests, quick.takes = append(quick.tests, t), quick.takes+t.takes
			}
		}
		if len(quick.tests) > 0 {
			all = append(all, quick)
		}
	}
	slices.SortStableFunc(all, func(a, b *step) int { return cmp.Or(a.order-b.order, cmp.Compare(a.takes, b.takes)) })
	return all
}

// run runs tests and returns what came of it and which of them failed. What is
// bounded first is the time of the processor, which is the same on a busy machine.
func (s *suite) run(ctx context.Context, dir string, number int, next *step) (result, by string) {
	cpu := 4 + int(6*next.takes.Seconds())
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+20*next.takes)
	defer cancel()
	limits := fmt.Sprintf("ulimit -t %d -v %d; exec \"$0\" \"$@\"", cpu, 8<<20)
	tests := s.command(ctx, dir, next.in, "-test.failfast", "-test.run", pattern(next.tests...))
	c := exec.CommandContext(ctx, "bash", append([]string{"-c", limits}, tests.Args...)...)
	c.Dir, c.Env = tests.Dir, append(os.Environ(), "MUTANT="+strconv.Itoa(number))
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
