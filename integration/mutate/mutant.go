//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
)

// mutant is a package with one range of one file replaced.
type mutant struct {
	in       *code
	file     string
	function string
	line     int
	pos      token.Position
	from, to int // in the file
	with     string
	source   []byte

	node             ast.Node // the expression or the statements that are another in it
	nodeFrom, nodeTo int
	removes          bool // nothing is left of these
	number           int  // in the binary that has them all, 0 when it is not there
}

// before returns the lines of the file that the range is in, and after the same in
// the mutant, without what is only space.
func (m *mutant) before() string { return oneLine(m.lines(m.source[m.from:m.to])) }
func (m *mutant) after() string  { return oneLine(m.lines([]byte(m.with))) }

func (m *mutant) lines(middle []byte) string {
	from := strings.LastIndexByte(string(m.source[:m.from]), '\n') + 1
	to := len(m.source)
	if i := strings.IndexByte(string(m.source[m.to:]), '\n'); i >= 0 {
		to = m.to + i
	}
	return string(m.source[from:m.from]) + string(middle) + string(m.source[m.to:to])
}

// oneLine returns s in one line: of many lines the first two and the last. Comments at
// the end go.
func oneLine(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, " // ")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines = append(lines, line)
		}
	}
	if n := len(lines); n > 4 {
		lines = []string{lines[0], lines[1], "…", lines[n-1]}
	}
	return strings.Join(lines, " ⏎ ")
}

// name says which mutant it is, whatever line it is in.
func (m *mutant) name() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s → %s", m.short(), m.function, m.before(), m.after()))
}

func (m *mutant) short() string {
	if name, err := filepath.Rel(m.in.root, m.file); err == nil {
		return filepath.ToSlash(name)
	}
	return m.file
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s → %s", m.short(), m.line, m.function, m.before(), m.after())
}

// key is the same as long as the file is.
func (m *mutant) key() string {
	h := sha256.New()
	fmt.Fprintln(h, m.short(), m.from, m.to, m.with)
	h.Write(m.source)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// bytes returns the file of the mutant.
func (m *mutant) bytes() []byte {
	return []byte(string(m.source[:m.from]) + m.with + string(m.source[m.to:]))
}
