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
	"strings"
)

// code is a package, parsed and with its types.
type code struct {
	root, path, dir string
	fset            *token.FileSet
	files           []*ast.File
	imports         types.Importer
	info            *types.Info
	types           *types.Package
	source          map[string][]byte // by the file's name
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	DepOnly, Standard                  bool
}

func goList(root string, args ...string) (all []listed, err error) {
	c := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,DepOnly,Standard"}, args...)...)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// loadPackages reads the packages that match a pattern of the go command, but for
// those that only tests import: their names end in test.
func loadPackages(root, pattern string) (packages []*code, err error) {
	all, err := goList(root, "-export", "-deps", pattern, "os", "strconv") // which switches import
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, l := range all {
		if l.DepOnly || l.Standard || strings.HasSuffix(l.ImportPath, "test") {
			continue
		}
		p := &code{root: root, path: l.ImportPath, dir: l.Dir, fset: fset, imports: imports, source: map[string][]byte{}}
		if err := p.load(l.GoFiles); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

func (p *code) load(files []string) (err error) {
	for _, f := range files {
		name := filepath.Join(p.dir, f)
		if p.source[name], err = os.ReadFile(name); err != nil {
			return err
		}
		file, err := parser.ParseFile(p.fset, name, p.source[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.files = append(p.files, file)
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	p.types, err = (&types.Config{Importer: p.imports}).Check(p.path, p.fset, p.files, p.info)
	return err
}
