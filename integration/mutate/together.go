//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A binary has nearly all mutants of its packages: which one it is, it is told when it
// starts. So they need not be compiled one by one, which takes longer than most
// tests. Conditions, values and statements ask for it:
//
//	if a && b { return x }
//
// becomes, with other names,
//
//	if (on(1) && (a) || on(2) && (b) || !(on(1) || on(2)) && (a && b)) { if on(3) { return 0 } else { return x } }
//
// Lines stay where they are, so that what the compiler refuses can be left out.

// switches are what the code asks. A function that returned always may come to its end:
// then the mutant would not compile alone.
const switches = `package %s

import (
	"os"
	"strconv"
)

var mutantNumber = func() int { n, _ := strconv.Atoi(os.Getenv("MUTANT")); return n }()

func mutantOn(n int) bool { return mutantNumber == n }

func mutantOut(from, to int) bool { return mutantNumber < from || mutantNumber > to }

func mutantPick[T any](n int, other, value T) T {
	if mutantNumber == n {
		return other
	}
	return value
}
`

const offTheEnd = "a mutant comes to the end of its function"

// site is a place in the code that has mutants.
type site struct {
	from, to    int
	mutants     []*mutant
	inside      []*site
	first, last int // the numbers of the mutants here and inside
}

// together returns the files of the package with all mutants that can be in one binary,
// and numbers these from the number after last on.
func (p *code) together(all []*mutant, last *int) (map[string][]byte, error) {
	leaveOut := map[*mutant]bool{}
	for {
		number := *last
		files := p.withSwitches(all, leaveOut, &number)
		bad, err := p.refused(all, files)
		if err != nil && len(bad) == 0 {
			return nil, fmt.Errorf("%s with many mutants: %w", p.path, err)
		}
		if len(bad) == 0 {
			*last = number
			return files, nil
		}
		for _, m := range bad {
			leaveOut[m] = true
		}
	}
}

func (p *code) withSwitches(all []*mutant, leaveOut map[*mutant]bool, number *int) map[string][]byte {
	files := map[string][]byte{filepath.Join(p.dir, "mutants_of_all.go"): fmt.Appendf(nil, switches, p.types.Name())}
	for _, m := range all {
		if m.in == p {
			m.number = 0
		}
	}
	for _, f := range p.files {
		name := p.fset.Position(f.Pos()).Filename
		top := &site{to: len(p.source[name])}
		sites := map[[2]int]*site{}
		var order []*site
		for _, m := range all {
			if m.file != name || leaveOut[m] || !p.switchable(m) {
				continue
			}
			at := [2]int{m.nodeFrom, m.nodeTo}
			if sites[at] == nil {
				sites[at] = &site{from: m.nodeFrom, to: m.nodeTo}
				order = append(order, sites[at])
			}
			sites[at].mutants = append(sites[at].mutants, m)
		}
		slices.SortFunc(order, func(a, b *site) int { return cmp.Or(a.from-b.from, b.to-a.to) })
		for _, s := range order {
			top.put(s)
		}
		top.count(number)
		r := &render{code: p, source: p.source[name], ends: p.ends(f)}
		files[name] = []byte(r.inside(top, 0, top.to))
	}
	return files
}

func (s *site) put(new *site) {
	if n := len(s.inside); n > 0 && new.from >= s.inside[n-1].from && new.to <= s.inside[n-1].to {
		s.inside[n-1].put(new)
		return
	}
	s.inside = append(s.inside, new)
}

func (s *site) count(n *int) {
	s.first = *n + 1
	for _, m := range s.mutants {
		*n++
		m.number = *n
	}
	for _, i := range s.inside {
		i.count(n)
	}
	s.last = *n
}

// switchable reports whether m can be in a binary with others: nothing is done twice, or
// divided by what may be 0.
func (p *code) switchable(m *mutant) bool {
	e, ok := m.node.(ast.Expr)
	switch {
	case strings.Contains(m.with, "\n"), strings.Contains(m.alone(), "\n") && !m.removes:
		return false
	case m.removes:
		return !strings.Contains(string(m.source[m.nodeFrom:m.nodeTo]), "fallthrough")
	case !ok || isBool(p.info.Types[e].Type):
		return true
	case m.with == "/":
		return false
	}
	simple := true
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			v := p.info.Types[c.Fun]
			simple = simple && (v.IsBuiltin() || v.IsType())
		}
		return simple
	})
	return simple
}

// alone returns what the node of m is in the mutant.
func (m *mutant) alone() string {
	if m.removes {
		return ""
	}
	return string(m.source[m.nodeFrom:m.from]) + m.with + string(m.source[m.to:m.nodeTo])
}

// ends returns where the functions end that have to return something.
func (p *code) ends(f *ast.File) (at []int) {
	add := func(t *ast.FuncType, b *ast.BlockStmt) {
		if t.Results != nil && b != nil {
			at = append(at, p.fset.Position(b.Rbrace).Offset)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Type, n.Body)
		case *ast.FuncLit:
			add(n.Type, n.Body)
		}
		return true
	})
	slices.Sort(at)
	return at
}

// render writes a file with its mutants.
type render struct {
	*code
	source []byte
	ends   []int
}

// inside returns the source from from to to, which are in s, with the sites in there.
func (r *render) inside(s *site, from, to int) string {
	var b strings.Builder
	for _, i := range s.inside {
		b.WriteString(r.plain(from, i.from))
		b.WriteString(r.site(s, i))
		from = i.to
	}
	b.WriteString(r.plain(from, to))
	return b.String()
}

// plain returns a part of the source as it is, but for the ends of functions.
func (r *render) plain(from, to int) string {
	var b strings.Builder
	for i, _ := slices.BinarySearch(r.ends, from); i < len(r.ends) && r.ends[i] < to; i++ {
		b.Write(r.source[from:r.ends[i]])
		b.WriteString("; panic(" + strconv.Quote(offTheEnd) + ")")
		from = r.ends[i]
	}
	b.Write(r.source[from:to])
	return b.String()
}

func (r *render) site(around, s *site) string {
	all := r.inside(s, s.from, s.to)
	e, ok := s.mutants[0].node.(ast.Expr)
	switch {
	case !ok:
		var b strings.Builder
		for _, m := range s.mutants {
			fmt.Fprintf(&b, "if mutantOn(%d) { %s } else ", m.number, m.alone())
		}
		return b.String() + "{ " + all + " }"
	case !isBool(r.info.Types[e].Type):
		for _, m := range s.mutants {
			all = fmt.Sprintf("mutantPick[%s](%d, %s, %s)", r.name(r.info.Types[e].Type), m.number, m.alone(), all)
		}
		return all
	}
	var any []string
	text := ""
	for _, m := range s.mutants {
		on := fmt.Sprintf("mutantOn(%d)", m.number)
		any = append(any, on)
		text += on + " && (" + m.alone() + ") || "
	}
	text = "(" + text + "!(" + strings.Join(any, " || ") + ") && (" + all + "))"
	plain := string(r.source[s.from:s.to])
	if len(around.mutants) > 0 && isExpr(around.mutants[0].node) || strings.Contains(plain, "\n") {
		return text
	}
	out := fmt.Sprintf("mutantOut(%d, %d)", s.first, s.last)
	return "(" + out + " && (" + plain + ") || !" + out + " && " + text + ")"
}

func isExpr(n ast.Node) bool {
	_, ok := n.(ast.Expr)
	return ok
}

func isBool(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// refused type-checks the files and returns the mutants in the lines of the errors.
func (p *code) refused(all []*mutant, files map[string][]byte) (found []*mutant, first error) {
	fset := token.NewFileSet()
	refuse := func(at token.Position, err error) {
		if first == nil {
			first = fmt.Errorf("%s: %w", at, err)
		}
		for _, m := range all {
			from, to := p.fset.Position(m.node.Pos()).Line, p.fset.Position(m.node.End()).Line
			if m.number > 0 && m.file == at.Filename && from <= at.Line && (at.Line <= to && !m.removes || from == at.Line || at.Line == to) {
				found = append(found, m)
			}
		}
	}
	var parsed []*ast.File
	for name, text := range files {
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		var list scanner.ErrorList
		errors.As(err, &list)
		for _, err := range list {
			refuse(err.Pos, err)
		}
		parsed = append(parsed, f)
	}
	if first != nil {
		return found, first
	}
	config := types.Config{Importer: p.imports, Error: func(err error) {
		var e types.Error
		errors.As(err, &e)
		refuse(fset.Position(e.Pos), err)
	}}
	_, _ = config.Check(p.path, fset, parsed, nil) // its errors have been refused
	return found, first
}
