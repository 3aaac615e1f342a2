//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// log keeps the results of mutants in a file, a line each: the result, the mutant's
// key, and for who reads it what killed it.
type log struct {
	file    *os.File // nil when nothing is kept
	results map[string]string
}

func openLog(name string) (*log, error) {
	l := &log{results: map[string]string{}}
	if name == "" {
		return l, nil
	}
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for s := bufio.NewScanner(strings.NewReader(string(b))); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 1 {
			l.results[f[1]] = f[0]
		}
	}
	l.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return l, err
}

// of returns the result of m, "" when it has none.
func (l *log) of(m *mutant) string { return l.results[m.key()] }

func (l *log) add(m *mutant, result, by string) error {
	l.results[m.key()] = result
	if l.file == nil {
		return nil
	}
	_, err := fmt.Fprintf(l.file, "%s %s %s %s\n", result, m.key(), m, by)
	return err
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
