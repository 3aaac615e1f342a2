//lint:file-ignore SA1019 the package is read as Caddy's site does, without its types

package caddymodule

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources are the files of the packages of all handlers, parsed.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := make(map[string]*ast.File)
	for _, dir := range []string{".", "../resume/resumecaddy", "../queue/queuecaddy", "../desk/deskcaddy"} {
		packages, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			maps.Copy(files, p.Files)
		}
	}
	return files
}

// modulePages are the types whose comments Caddy's site shows as a module's page, as
// Markdown.
func modulePages(t *testing.T) map[string]*doc.Type {
	t.Helper()
	pages := make(map[string]*doc.Type)
	for _, of := range doc.New(&ast.Package{Name: "caddymodule", Files: sources(t)}, "caddymodule", 0).Types {
		if slices.ContainsFunc(of.Methods, func(f *doc.Func) bool { return f.Name == "CaddyModule" }) {
			pages[of.Name] = of
		}
	}
	return pages
}

// TestModulePages: they begin as Go wants it, and each option of theirs says what it is
// and its default.
func TestModulePages(t *testing.T) {
	pages := modulePages(t)
	for _, name := range []string{"Handler", "ResumeHandler", "QueueHandler", "Transport", "AdminStreams", "ApprovalsHandler"} {
		if pages[name] == nil {
			t.Errorf("there is no page of %s", name)
		}
	}
	for name, page := range pages {
		if !strings.HasPrefix(page.Doc, name+" ") {
			t.Errorf("%s begins with %.40q", name, page.Doc)
		}
		checkMarkdown(t, name, page.Doc)
		for _, f := range page.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
			if len(f.Names) == 0 || !f.Names[0].IsExported() { // embedded, or not for users
				continue
			}
			text := f.Doc.Text()
			checkMarkdown(t, name+"."+f.Names[0].Name, text)
			if f.Tag == nil || !strings.Contains(f.Tag.Value, "omitempty") || !regexp.MustCompile(`Default: [^.]+(\.\d+)?(, [^.]+)?\.\n$`).MatchString(text) {
				t.Errorf("%s.%s: its tag is %v, and its comment %q", name, f.Names[0].Name, f.Tag, text)
			}
		}
	}
}

// TestModulesCanBeScanned by Caddy's registry, which reads the code without running it: it
// knows a module that is registered as a composite literal or by new, and an ID that is a
// string.
func TestModulesCanBeScanned(t *testing.T) {
	registered, ids := 0, 0
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "RegisterModule" {
					break
				}
				registered++
				_, literal := n.Args[0].(*ast.CompositeLit)
				made, isCall := n.Args[0].(*ast.CallExpr)
				if !literal && !(isCall && made.Fun.(*ast.Ident).Name == "new") {
					t.Errorf("a module is registered as %T", n.Args[0])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "ID" {
					ids++
					if _, ok := n.Value.(*ast.BasicLit); !ok {
						t.Errorf("an ID is a %T", n.Value)
					}
				}
			}
			return true
		})
	}
	if registered < 3 || registered != ids {
		t.Errorf("%d modules are registered, and %d have an ID", registered, ids)
	}
}

// checkMarkdown wants whole spans of code, and tables of two columns.
func checkMarkdown(t *testing.T, name, text string) {
	t.Helper()
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.Count(paragraph, "`")%2 != 0 {
			t.Errorf("%s: a backtick is open in %q", name, paragraph)
		}
		if !strings.Contains(paragraph, "|--") {
			continue
		}
		for row := range strings.SplitSeq(strings.TrimSpace(paragraph), "\n") {
			if strings.Count(row, "|") != 1 {
				t.Errorf("%s: %q is no row", name, row)
			}
		}
	}
}

// TestModulePagesListPlaceholders, those that there are, as docs/observability.md does.
func TestModulePagesListPlaceholders(t *testing.T) {
	placeholder := regexp.MustCompile(`\{(http\.hermes\.\w+)\}`)
	named := func(text string) (names []string) {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	pages := modulePages(t)
	var all []string
	for _, page := range []string{"Handler", "ResumeHandler", "QueueHandler"} {
		all = append(all, named(pages[page].Doc)...)
	}
	slices.Sort(all)
	observability, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	if there := named(string(observability)); !slices.Equal(all, there) {
		t.Errorf("listed are %q, and docs/observability.md has %q", all, there)
	}
}
