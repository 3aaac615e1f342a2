package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// mutant is a file with one range of its bytes replaced.
type mutant struct {
	file     string
	line     int
	from, to int // in original
	with     string
	original []byte
}

// source returns the mutant's file.
func (m mutant) source() []byte {
	return []byte(string(m.original[:m.from]) + m.with + string(m.original[m.to:]))
}

// String returns the file, the line, and that line before and after. A range of
// several lines is cut.
func (m mutant) String() string {
	start := bytes.LastIndexByte(m.original[:m.from], '\n') + 1
	line := func(b []byte) string {
		first, _, _ := strings.Cut(string(b[start:]), "\n")
		return strings.TrimSpace(first)
	}
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, line(m.original), line(m.source()))
}

// operators are what an operator becomes.
var operators = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.LSS: {">=", "<="}, token.LEQ: {">", "<"}, token.GTR: {"<=", ">="}, token.GEQ: {"<", ">"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.SHL: {">>"}, token.SHR: {"<<"}, token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"&"}, token.AND_NOT: {"&"},
	token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.INC: {"--"}, token.DEC: {"++"},
	token.BREAK: {"continue"}, token.CONTINUE: {"break"},
}

// mutantsOf returns the mutants of a file: another operator, a negated condition, a
// statement less, another value returned.
func mutantsOf(fset *token.FileSet, f *ast.File, source []byte) (all []mutant) {
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	add := func(from, to token.Pos, with string) {
		at := fset.Position(from)
		all = append(all, mutant{at.Filename, at.Line, at.Offset, offset(to), with, source})
	}
	operator := func(at token.Pos, op token.Token) {
		for _, with := range operators[op] {
			add(at, at+token.Pos(len(op.String())), with)
		}
	}
	negate := func(e ast.Expr) {
		if e != nil {
			add(e.Pos(), e.End(), "!("+string(source[offset(e.Pos()):offset(e.End())])+")")
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			operator(n.OpPos, n.Op)
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.ForStmt:
			negate(n.Cond)
		case *ast.BranchStmt:
			if n.Label == nil {
				operator(n.TokPos, n.Tok)
			}
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
			add(n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "")
			}
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
			add(n.Pos(), n.End(), "")
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				if with := another(e); with != "" {
					add(e.Pos(), e.End(), with)
				}
			}
		}
		return true
	})
	return all
}

// others are what a value becomes.
var others = map[string]string{"true": "false", "false": "true", "err": "nil", "0": "1", `""`: `"mutant"`, "``": `"mutant"`}

// another returns another value than e, "" if its type does not show.
func another(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return others[e.Name]
	case *ast.BasicLit:
		return cmp.Or(others[e.Value], map[token.Token]string{token.INT: "0", token.STRING: `""`}[e.Kind])
	}
	return ""
}
