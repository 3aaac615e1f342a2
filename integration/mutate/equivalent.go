//go:build unix

package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// equivalents are the mutants that change nothing that anyone could see. In their
// file each is a line as the mutant is printed, without its line number, and below it,
// indented, the reason.
type equivalents struct{ reasons map[string]string }

func readEquivalents(name string) (*equivalents, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	e := &equivalents{map[string]string{}}
	last := ""
	without := func() error {
		if last == "" || e.reasons[last] != "" {
			return nil
		}
		return fmt.Errorf("%s: a mutant without a reason: %s", name, last)
	}
	for line := range strings.Lines(string(b)) {
		switch line = strings.TrimRight(line, "\n"); {
		case line == "" || line[0] == '#':
		case line[0] == '\t' && last == "":
			return nil, fmt.Errorf("%s: a reason without a mutant: %s", name, line)
		case line[0] == '\t':
			e.reasons[last] += line[1:]
		default:
			if err := without(); err != nil {
				return nil, err
			}
			last = line
		}
	}
	return e, without()
}

func (e *equivalents) has(m *mutant) bool {
	_, ok := e.reasons[m.name()]
	return ok
}

// checkStale prints which of those in the packages of the pattern are no mutants any
// more.
func (e *equivalents) checkStale(pattern string, all []*mutant) {
	dir, below := strings.CutSuffix(path.Clean(pattern), "/...")
	there := map[string]bool{}
	for _, m := range all {
		there[m.name()] = true
	}
	for known := range e.reasons {
		file, _, _ := strings.Cut(known, " ")
		if in := path.Dir(file); !there[known] && (in == dir || below && strings.HasPrefix(in, dir+"/")) {
			fmt.Println("no longer a mutant, take it out of equivalent.txt:", known)
		}
	}
}
