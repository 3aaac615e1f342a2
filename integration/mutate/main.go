//go:build unix

// Command mutate breaks packages in one place after another and counts how often their
// tests notice, or those of other packages of the same tree, ./rewrite/... or
// ./proxy/.... A mutant that survives is behaviour that no test holds. It is run by
// hand, for it takes hours to try all, and needs bash and its ulimit.
//
// No library does this here: gremlins v0.6.0, the only one that the module proxy has,
// takes no statement, branch or returned value away, compiles and runs all for each
// mutant, takes no sample, and counts what does not end as nothing.
//
//	.ci/mutate                                      # rewrite and proxy
//	.ci/mutate -sample 300 -seed 2 ./rewrite/...    # 300 of its mutants
//	.ci/mutate -files sse/scanner -log /tmp/mutants # goes on where it was interrupted
//	.ci/mutate -log /tmp/mutants -quick             # without the tests that take long,
//	.ci/mutate -log /tmp/mutants -again             # and with them those that survived
//
// Those that are known to change nothing are in equivalent.txt.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	root   string
	sample int
	seed   uint64
	files  *regexp.Regexp
	log    string
	again  bool
	quick  bool
	list   bool
}

func command(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "the directory of the module")
	flags.IntVar(&o.sample, "sample", 0, "how many mutants of each pattern are tried, 0 for all")
	flags.Uint64Var(&o.seed, "seed", 1, "which ones")
	files := flags.String("files", "", "only those of files whose path matches this pattern")
	flags.StringVar(&o.log, "log", "", "a file that keeps results; those that it has are not found again")
	flags.BoolVar(&o.again, "again", false, "try again those that survived by the log, and only these")
	flags.BoolVar(&o.quick, "quick", false, "leave out the slow tests: most mutants die of the others")
	flags.BoolVar(&o.list, "list", false, "only list the mutants")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.again && o.log == "" {
		return errors.New("-again reads the log: name it with -log")
	}
	var err error
	if o.files, err = regexp.Compile(*files); err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	known, err := readEquivalents(filepath.Join(o.root, "integration", "mutate", "equivalent.txt"))
	if err != nil {
		return err
	}
	results, err := openLog(o.log)
	if err != nil {
		return err
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"./rewrite/...", "./proxy/..."}
	}
	for _, name := range patterns {
		if err := o.tryPackages(ctx, name, known, results); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return results.close()
}

// tryPackages tries mutants of the packages of a pattern and prints how many were killed.
func (o *options) tryPackages(ctx context.Context, name string, known *equivalents, results *log) error {
	packages, err := loadPackages(o.root, name)
	if err != nil {
		return err
	}
	var all []*mutant
	for _, p := range packages {
		all = append(all, p.mutants()...)
	}
	known.checkStale(name, all)
	var tried []*mutant
	for _, m := range all {
		switch {
		case !o.files.MatchString(m.short()), known.has(m):
		case o.again && results.of(m) != survived:
		default:
			tried = append(tried, m)
		}
	}
	fmt.Printf("%s: %d mutants, %d to choose from\n", name, len(all), len(tried))
	if o.list {
		for _, m := range tried {
			fmt.Println(m)
		}
		return nil
	}
	r := rand.New(rand.NewPCG(o.seed, 1))
	r.Shuffle(len(tried), func(i, j int) { tried[i], tried[j] = tried[j], tried[i] })

	var s *suite
	var t tally
	for _, m := range tried {
		if o.sample > 0 && t.tried() == o.sample {
			break
		}
		got := results.of(m)
		if got == "" || o.again && got == survived {
			if s == nil {
				if s, err = newSuite(ctx, o.root, name, packages, all, o.quick); err != nil {
					return err
				}
				defer s.close()
			}
			var by string
			if got, by, err = s.try(ctx, m); err != nil {
				return err
			}
			if ctx.Err() != nil { // what it has come to is nothing of the mutant's
				break
			}
			if err := results.add(m, got, by); err != nil {
				return err
			}
			fmt.Printf("%-9s %s  %s\n", got, m, by)
		}
		t.add(m, got)
	}
	t.print(name)
	return ctx.Err()
}

// A result is what became of a mutant.
const (
	killed   = "killed"
	timeout  = "timeout"  // it did not end: killed as well
	unviable = "unviable" // it does not compile: not counted
	survived = "survived"
)

// tally counts results.
type tally struct {
	count     map[string]int
	survivors []*mutant
}

func (t *tally) add(m *mutant, result string) {
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[result]++
	if result == survived {
		t.survivors = append(t.survivors, m)
	}
}

func (t *tally) tried() int { return t.count[killed] + t.count[timeout] + t.count[survived] }

func (t *tally) print(name string) {
	slices.SortStableFunc(t.survivors, func(a, b *mutant) int {
		return cmp.Or(strings.Compare(a.file, b.file), a.line-b.line)
	})
	fmt.Printf("\n%s: survivors\n", name)
	for _, m := range t.survivors {
		fmt.Println(m)
	}
	n := max(1, t.tried())
	dead := t.count[killed] + t.count[timeout]
	fmt.Printf("\n%s: %d of %d killed, %.1f %% (%d of them did not end); %d do not compile\n",
		name, dead, t.tried(), 100*float64(dead)/float64(n), t.count[timeout], t.count[unviable])
}
