// Command mutate breaks code in one place at a time and reports the mutants that the
// tests let live. Each of those is behaviour that no test holds, or a change without
// effect: read them, one by one.
//
//	.ci/mutate                                    # 100 mutants of rewrite and of proxy
//	.ci/mutate -sample 300 -seed 2 ./rewrite/...  # 300 others of rewrite
//	.ci/mutate -files sse/scanner -sample 0       # all of one file
//
// A mutant is a file in an overlay of the go command: nothing in the tree changes. One
// takes from a second to a minute. A test that does not end has noticed it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	root := flags.String("root", "..", "the directory of the module")
	sample := flags.Int("sample", 100, "how many mutants of each pattern are tried, 0 for all")
	seed := flags.Uint64("seed", 1, "which of them")
	files := flags.String("files", "", "only those of files whose path matches this regular expression")
	limit := flags.Duration("timeout", 2*time.Minute, "how long the tests of a mutant may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"./rewrite/...", "./proxy/..."}
	}
	for _, pattern := range patterns {
		t := trial{root: *root, pattern: pattern, timeout: *limit}
		mutants, err := t.mutants(ctx, match)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(*seed, 1))
		r.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		if err := t.try(ctx, mutants, *sample); err != nil {
			return err
		}
	}
	return nil
}

// trial tries mutants of the packages of a pattern with the tests of all of them,
// because what one package decides may only show in another's tests.
type trial struct {
	root, pattern string
	timeout       time.Duration
}

// mutants returns all mutants of the files that match.
func (t trial) mutants(ctx context.Context, match *regexp.Regexp) (all []mutant, err error) {
	out, err := t.goCommand(ctx, "list", "-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, t.pattern)
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, out)
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name == "" || !match.MatchString(filepath.ToSlash(name)) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, mutantsOf(fset, file, source)...)
	}
	return all, nil
}

// try prints what becomes of the first mutants that compile, up to sample of them. It
// fails if the tests fail without one.
func (t trial) try(ctx context.Context, mutants []mutant, sample int) error {
	if out, err := t.goCommand(ctx, "test", "-count=1", t.pattern); err != nil {
		return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", t.pattern, err, out)
	}
	fmt.Printf("%s: %d mutants\n", t.pattern, len(mutants))
	tried, survivors := 0, 0
	for _, m := range mutants {
		if sample > 0 && tried == sample {
			break
		}
		verdict, err := t.test(ctx, m)
		if err != nil {
			return err
		}
		switch verdict {
		case unviable:
			continue
		case survived:
			survivors++
		}
		tried++
		fmt.Printf("%-8s %s\n", verdict, m)
	}
	fmt.Printf("%s: %d of %d survived\n", t.pattern, survivors, tried)
	return nil
}

// A verdict says what became of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "survived"
	unviable verdict = "unviable" // it does not compile, or vet refuses it
)

// test runs the tests with m in the place of its file.
func (t trial) test(ctx context.Context, m mutant) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: file}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(file, m.source(), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	out, err := t.goCommand(ctx, "test", "-overlay", overlay, "-failfast", "-timeout", t.timeout.String(), t.pattern)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return survived, nil
	case bytes.Contains(out, []byte("[build failed]")):
		return unviable, nil
	}
	return killed, nil
}

// goCommand runs the go command in the module.
func (t trial) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = t.root
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	return c.CombinedOutput()
}
