package sidecar

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hermes-sidecar/hermes-sidecar/"

// floors are the packages of the engine and what stands on it, each with those of the
// house that it may import. Others may import what they like.
var floors = map[string]string{
	"rewrite/sse":               "",
	"rewrite/internal/jsonspan": "",
	"rewrite/internal/marker":   "jsonspan",
	"rewrite/internal/redact":   "jsonspan",
	"rewrite/internal/contract": "jsonspan marker",
	"rewrite/internal/prose":    "jsonspan marker contract",
	"rewrite/internal/chunk":    "jsonspan marker contract redact prose sse",
	"rewrite/internal/chat":     "jsonspan marker contract redact prose chunk sse",
	"rewrite/internal/agentapi": "jsonspan contract redact chunk sse",
	"rewrite/internal/whole":    "jsonspan marker contract redact prose chunk",
	"rewrite":                   "jsonspan marker contract redact chunk chat agentapi whole sse",
}

// TestHouse keeps what CONTRIBUTING.md says of the house and no compiler does: files of at
// most 400 lines, types of at most 25 methods, and imports that run one way.
func TestHouse(t *testing.T) {
	methods, seen := map[string]int{}, map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte("\n")); n > 400 {
			t.Errorf("%s has %d lines, want at most 400", name, n)
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[dir+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
		for _, imported := range f.Imports {
			of, _ := strconv.Unquote(imported.Path.Value)
			checkImport(t, dir, of)
		}
		seen[dir] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for of, n := range methods {
		if n > 25 {
			t.Errorf("%s has %d methods, want at most 25", of, n)
		}
	}
	for dir := range floors {
		if !seen[dir] {
			t.Errorf("there is no package %s", dir)
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// checkImport checks that the package in dir may import the package of.
func checkImport(t *testing.T, dir, of string) {
	of, ours := strings.CutPrefix(of, module)
	allowed, isFloor := floors[dir]
	switch {
	case isFloor && ours && !strings.Contains(" "+allowed+" ", " "+path.Base(of)+" "),
		isFloor && (of == "net/http" || strings.Contains(of, "caddy") || strings.Contains(of, "zap")),
		strings.HasPrefix(dir, "proxy") && (strings.HasPrefix(of, "caddymodule") || strings.Contains(of, "caddyserver") || strings.Contains(of, "zap")),
		strings.HasPrefix(dir, "proxy") && dir != "proxy/resume" && of == "proxy/resume",
		dir == "rewrite/sse" && strings.Contains(of, "json"):
		t.Errorf("%s must not import %s", dir, of)
	}
}
