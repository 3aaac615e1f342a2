package main

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const clamp = `package example

func clamp(n, most int) int {
	if n > most {
		return most
	}
	return n
}
`

func TestMutants(t *testing.T) {
	fset := token.NewFileSet()
	const source = `package example

func has(s string) (found bool) {
	for i := 0; i < len(s); i++ {
		if s[i] == 'x' && i != 3 {
			found = true
			break
		}
	}
	return found || false
}
`
	f, err := parser.ParseFile(fset, "a.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range mutantsOf(fset, f, []byte(source)) {
		got.WriteString(m.String() + "\n")
	}
	const want = `a.go:4: for i := 0; i < len(s); i++ { → for i := 0; !(i < len(s)); i++ {
a.go:4: for i := 0; i < len(s); i++ { → for i := 0; i >= len(s); i++ {
a.go:4: for i := 0; i < len(s); i++ { → for i := 0; i <= len(s); i++ {
a.go:4: for i := 0; i < len(s); i++ { → for i := 0; i < len(s); i-- {
a.go:4: for i := 0; i < len(s); i++ { → for i := 0; i < len(s);  {
a.go:5: if s[i] == 'x' && i != 3 { → if !(s[i] == 'x' && i != 3) {
a.go:5: if s[i] == 'x' && i != 3 { → if s[i] == 'x' || i != 3 {
a.go:5: if s[i] == 'x' && i != 3 { → if s[i] != 'x' && i != 3 {
a.go:5: if s[i] == 'x' && i != 3 { → if s[i] == 'x' && i == 3 {
a.go:6: found = true → 
a.go:7: break → continue
a.go:10: return found || false → return found && false
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// A test that holds all of it kills what compiles, one that holds nothing kills nothing,
// and one that does not end has noticed.
func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want verdict
	}{
		"held":     {`if clamp(2, 1) != 1 || clamp(1, 1) != 1 || clamp(0, 1) != 0 { t.Fatal() }`, killed},
		"not held": {``, survived},
		"hangs":    {`for clamp(2, 1) != 1 { }`, killed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module example\n\ngo 1.26\n", "a.go": clamp,
				"a_test.go": "package example\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { " + test.body + " }\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := trial{root: dir, pattern: "./...", timeout: 10 * time.Second}
			mutants, err := r.mutants(context.Background(), regexp.MustCompile(`a\.go$`))
			if err != nil || len(mutants) == 0 {
				t.Fatal(len(mutants), err)
			}
			got, err := r.test(context.Background(), mutants[0]) // the condition negated
			if err != nil || got != test.want {
				t.Errorf("%s: %s, %v; want %s", mutants[0], got, err, test.want)
			}
		})
	}
}

func TestWhatDoesNotCompileIsUnviable(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n\ngo 1.26\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "a.go"), []byte(clamp), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	m := mutant{file: filepath.Join(dir, "a.go"), from: 0, to: 7, with: "package nonsense;", original: []byte(clamp)}
	if got, err := (trial{root: dir, pattern: "./...", timeout: time.Minute}).test(context.Background(), m); err != nil || got != unviable {
		t.Errorf("%s, %v", got, err)
	}
}
