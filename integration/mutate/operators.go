//go:build unix

package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// maker makes the mutants of a file.
type maker struct {
	*code
	file     string
	function *ast.FuncDecl
	made     []*mutant
}

// mutants returns all mutants of the package, in the order of the source.
func (p *code) mutants() (all []*mutant) {
	for _, f := range p.files {
		m := &maker{code: p, file: p.fset.Position(f.Pos()).Filename}
		for _, d := range f.Decls {
			m.function, _ = d.(*ast.FuncDecl)
			m.walk(d)
		}
		slices.SortStableFunc(m.made, func(a, b *mutant) int { return a.from - b.from })
		all = append(all, m.made...)
	}
	return all
}

// walk makes the mutants of n and what is in it.
func (m *maker) walk(n ast.Node) {
	var results *types.Tuple // of the function around
	var loops []bool         // whether break and continue around are those of a loop
	var visit func(n ast.Node) bool
	into := func(n ast.Node, isLoop bool) bool {
		loops = append(loops, isLoop)
		ast.Inspect(n, func(c ast.Node) bool { return c == n || c == nil || visit(c) })
		loops = loops[:len(loops)-1]
		return false
	}
	inFunction := func(t types.Type, n ast.Node) bool {
		outer, around := results, loops
		results, loops = t.(*types.Signature).Results(), nil
		ast.Inspect(n, func(c ast.Node) bool { return c == n || c == nil || visit(c) })
		results, loops = outer, around
		return false
	}
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return inFunction(m.info.Defs[n.Name].Type(), n)
		case *ast.FuncLit:
			return inFunction(m.info.Types[n].Type, n)
		case *ast.GenDecl:
			if n.Tok == token.CONST || n.Tok == token.TYPE || n.Tok == token.IMPORT {
				return false
			}
		case *ast.BlockStmt:
			m.statements(n.List)
		case *ast.CaseClause:
			m.statements(n.Body)
			m.emptied(n.Body)
			for _, c := range n.List {
				m.condition(c)
			}
		case *ast.CommClause:
			m.statements(n.Body)
			m.emptied(n.Body)
		case *ast.IfStmt:
			m.condition(n.Cond)
			m.emptied(n.Body.List)
			if b, ok := n.Else.(*ast.BlockStmt); ok {
				m.emptied(b.List)
			}
		case *ast.ForStmt:
			m.condition(n.Cond)
			return into(n, true)
		case *ast.RangeStmt:
			m.emptied(n.Body.List)
			return into(n, true)
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			return into(n, false)
		case *ast.BranchStmt:
			if n.Label == nil && len(loops) > 0 && loops[len(loops)-1] {
				switch n.Tok {
				case token.BREAK:
					m.replace(n, "continue")
				case token.CONTINUE:
					m.replace(n, "break")
				}
			}
		case *ast.BinaryExpr:
			m.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				m.replace(n, m.text(n.X))
			}
		case *ast.ReturnStmt:
			m.returned(n, results)
		}
		return true
	}
	ast.Inspect(n, func(c ast.Node) bool { return c == nil || visit(c) })
}

// operators are what an operator becomes.
var operators = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.LSS: {">=", "<="}, token.LEQ: {">", "<"}, token.GTR: {"<=", ">="}, token.GEQ: {"<", ">"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.SHL: {">>"}, token.SHR: {"<<"}, token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"&"}, token.AND_NOT: {"&"},
}

// binary changes an operator, or leaves one side of && and || out.
func (m *maker) binary(n *ast.BinaryExpr) {
	if t := m.info.Types[n]; t.Value != nil || !t.IsValue() || n.Op == token.ADD && !isNumber(t.Type) {
		return
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		m.replace(n, "("+m.text(n.X)+")")
		m.replace(n, "("+m.text(n.Y)+")")
		return
	}
	to := n.OpPos + token.Pos(len(n.Op.String()))
	for _, op := range operators[n.Op] {
		m.add(n, n.OpPos, to, op)
	}
}

// condition negates one that binary does not change.
func (m *maker) condition(e ast.Expr) {
	switch e := e.(type) {
	case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr:
		if t := m.info.Types[e]; t.Value == nil && t.Type != nil && types.Identical(t.Type.Underlying(), types.Typ[types.Bool]) {
			m.replace(e, "!"+m.text(e))
		}
	}
}

// statements takes those out that stand alone.
func (m *maker) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			m.remove(s)
			if flip := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[s.Tok]; flip != "" && isNumber(m.info.Types[s.Lhs[0]].Type) {
				m.add(s, s.TokPos, s.TokPos+2, flip)
			}
		case *ast.IncDecStmt:
			m.remove(s)
			m.add(s, s.TokPos, s.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[s.Tok])
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			m.remove(s)
		}
	}
}

// emptied takes all statements of a branch out, unless statements does the same.
func (m *maker) emptied(list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	if len(list) == 1 {
		switch s := list[0].(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				return
			}
		case *ast.IncDecStmt, *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			return
		}
	}
	m.remove(list...)
}

// remove takes statements out. What they used is used still, so that it compiles.
func (m *maker) remove(list ...ast.Stmt) {
	first, last := list[0], list[len(list)-1]
	var uses []string
	use := func(s string) {
		if !slices.Contains(uses, s) {
			uses = append(uses, s)
		}
	}
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok {
				if _, ok := m.info.Uses[id].(*types.PkgName); ok {
					if _, isType := m.info.Uses[n.Sel].(*types.TypeName); !isType {
						use("_ = " + m.text(n))
					}
					return false
				}
			}
		case *ast.Ident:
			v, ok := m.info.Uses[n].(*types.Var)
			local := ok && !v.IsField() && v.Parent() != nil && v.Parent() != m.types.Scope() && v.Parent() != types.Universe
			if local && (v.Pos() < first.Pos() || v.Pos() >= last.End()) {
				use("_ = " + n.Name)
			}
		}
		return true
	}
	for _, s := range list {
		ast.Inspect(s, look)
	}
	m.add(stretch{first, last}, first.Pos(), last.End(), strings.Join(uses, "; "))
	m.made[len(m.made)-1].removes = true
}

// stretch is the statements from first to last.
type stretch struct{ first, last ast.Stmt }

func (s stretch) Pos() token.Pos { return s.first.Pos() }
func (s stretch) End() token.Pos { return s.last.End() }

// returned changes the values that are returned.
func (m *maker) returned(n *ast.ReturnStmt, results *types.Tuple) {
	if results == nil || len(n.Results) != results.Len() {
		return
	}
	for i, e := range n.Results {
		if with, ok := m.other(e, results.At(i).Type()); ok {
			m.add(n, e.Pos(), e.End(), with)
		}
	}
}

// other returns another value than e is, of the type t.
func (m *maker) other(e ast.Expr, t types.Type) (string, bool) {
	constant := m.info.Types[e].Value
	text := m.text(e)
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			if text == "true" || text == "false" {
				return map[string]string{"true": "false", "false": "true"}[text], true
			}
			switch e.(type) {
			case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr:
				return "!" + text, true
			}
			return "", false
		case u.Info()&types.IsNumeric != 0:
			if constant != nil && constant.ExactString() == "0" {
				return "1", true
			}
			return "0", true
		case u.Info()&types.IsString != 0:
			if constant != nil && constant.ExactString() == `""` {
				return `"mutant"`, true
			}
			return `""`, true
		}
	case *types.Struct:
		if strings.HasSuffix(text, "{}") {
			return "", false
		}
		return "*new(" + m.name(t) + ")", true
	case *types.Pointer, *types.Slice, *types.Map, *types.Chan, *types.Signature, *types.Interface:
		return "nil", text != "nil"
	}
	return "", false
}

// name returns the name of a type in the package.
func (p *code) name(t types.Type) string {
	return types.TypeString(t, func(other *types.Package) string {
		if other == p.types {
			return ""
		}
		return other.Name()
	})
}

func isNumber(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

func (m *maker) text(n ast.Node) string {
	return string(m.source[m.file][m.offset(n.Pos()):m.offset(n.End())])
}

func (m *maker) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *maker) replace(n ast.Node, with string) { m.add(n, n.Pos(), n.End(), with) }

// add adds a mutant of the expression or the statements n, which has the text with from
// from to to.
func (m *maker) add(n ast.Node, from, to token.Pos, with string) {
	at := m.fset.Position(from)
	made := &mutant{
		in: m.code, file: m.file, line: at.Line, pos: at,
		from: at.Offset, to: m.offset(to), with: with, source: m.source[m.file],
		node: n, nodeFrom: m.offset(n.Pos()), nodeTo: m.offset(n.End()),
	}
	if m.function != nil {
		made.function = m.function.Name.Name
	}
	m.made = append(m.made, made)
}
