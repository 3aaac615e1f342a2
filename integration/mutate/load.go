//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// code is a package, parsed and with its types.
type code struct {
	root, path, dir string
	fset            *token.FileSet
	files           []*ast.File
	info            *types.Info
	types           *types.Package
	source          map[string][]byte // by the file's name
}

// loadPackage reads the package that the go command calls by name.
func loadPackage(root, name string) (*code, error) {
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		DepOnly                 bool
	}
	c := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", name)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var own listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			own = l
		}
	}
	p := &code{root: root, path: own.ImportPath, dir: own.Dir, fset: token.NewFileSet(), source: map[string][]byte{}}
	for _, f := range own.GoFiles {
		name := filepath.Join(own.Dir, f)
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(p.fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.source[name] = b
		p.files = append(p.files, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return p, p.check(importer.ForCompiler(p.fset, "gc", open))
}

// check finds the types.
func (p *code) check(from types.Importer) (err error) {
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	p.types, err = (&types.Config{Importer: from}).Check(p.path, p.fset, p.files, p.info)
	return err
}
