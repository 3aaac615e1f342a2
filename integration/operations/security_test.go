package operations

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// securityPage is docs/security.md.
func securityPage(t *testing.T) string {
	t.Helper()
	return harness.ReadFile(t, harness.Path("docs/security.md"))
}

// goFiles calls each with the Go files of the repository.
func goFiles(t *testing.T, each func(file string, f *ast.File)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(harness.Path("")), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), harness.Path(name), nil, parser.SkipObjectResolution)
		if err == nil {
			each(name, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every test that the page names is one.
func TestSecurityPageNamesTests(t *testing.T) {
	tests := map[string]bool{}
	goFiles(t, func(file string, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(file, "_test.go") {
				tests[fn.Name.Name] = true
			}
		}
	})
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(securityPage(t), -1)
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	if len(named) < 80 {
		t.Errorf("the page names %d tests only", len(named))
	}
}

// Every limit in the tables has a test, but for those that say that there is none.
func TestSecurityLimitsHaveTests(t *testing.T) {
	_, limits, _ := strings.Cut(securityPage(t), "\n## Limits\n")
	limits, _, _ = strings.Cut(limits, "\n## ")
	rows := 0
	for row := range strings.SplitSeq(limits, "\n") {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(row, "|---") || strings.HasPrefix(row, "| limit ") {
			continue
		}
		rows++
		none := strings.Trim(cells[1], " *") == "none"
		if !none && !strings.Contains(cells[3], "`Test") {
			t.Errorf("a limit without a test: %s", row)
		}
	}
	if rows < 45 {
		t.Errorf("%d limits only", rows)
	}
}

// The numbers of the page are those of the code, and no bound of the code is
// missing from it.
func TestSecurityLimitsAreThoseOfTheCode(t *testing.T) {
	isBound := regexp.MustCompile(`^(max|Max|DefaultMax|defaultRecordMax$)`)
	ofThePlugin := regexp.MustCompile(`^(rewrite(/.+)?|resume(/.+)?|internal/.+|(proxy|caddymodule)(/internal/.+)?)$`)
	code, alias := map[string]int64{}, map[string]string{}
	goFiles(t, func(file string, f *ast.File) {
		if strings.HasSuffix(file, "_test.go") || !ofThePlugin.MatchString(path.Dir(file)) {
			return
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i >= len(v.Values) {
						continue
					}
					if other, ok := v.Values[i].(*ast.Ident); ok {
						alias[name.Name] = other.Name
					}
					if tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(v.Values[i])); err == nil && tv.Value != nil && tv.Value.Kind() == constant.Int {
						code[name.Name], _ = constant.Int64Val(tv.Value)
					}
				}
			}
		}
	})
	for name, other := range alias {
		if n, ok := code[other]; ok {
			code[name] = n
		}
	}
	units := map[string]int64{"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "MB": 1e6}
	page := map[string]bool{}
	for _, m := range regexp.MustCompile("(\\d+)(?: ([A-Za-z]+))?(?: [a-z]+)*(?: of them)? \\(`([A-Za-z0-9]+)`\\)").FindAllStringSubmatch(securityPage(t), -1) {
		page[m[3]] = true
		unit, ok := units[m[2]]
		if !ok {
			unit = 1 // a word, as in "256 places"
		}
		n, _ := strconv.ParseInt(m[1], 10, 64)
		if got, ok := code[m[3]]; !ok || got != n*unit {
			t.Errorf("%s is %d in the code (%v), %s %s on the page", m[3], got, ok, m[1], m[2])
		}
	}
	found := 0
	for name := range code {
		if isBound.MatchString(name) {
			found++
			if !page[name] {
				t.Errorf("%s is not on the page", name)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d bounds in the code only", found)
	}
}
