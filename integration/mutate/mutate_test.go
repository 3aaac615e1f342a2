//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// aModule returns the directory of a module with the files.
func aModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.26\n"
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const example = `package example

import "strings"

func clamp(n, most int) int {
	if n > most {
		return most
	}
	return n
}

func has(s string) (found bool, err error) {
	for i := range s {
		if s[i] == 'x' && !strings.HasPrefix(s, "y") {
			found = true
			break
		}
	}
	return found, nil
}
`

func TestOperators(t *testing.T) {
	packages, err := loadPackages(aModule(t, map[string]string{"a.go": example}), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range packages[0].mutants() {
		got = append(got, m.name())
	}
	for _, want := range []string{
		"a.go clamp: if n > most { → if n <= most {",
		"a.go clamp: if n > most { → if n >= most {",
		"a.go clamp: return most → _ = most",
		"a.go clamp: return most → return 0",
		"a.go clamp: return n → return 0",
		`a.go has: if s[i] == 'x' && !strings.HasPrefix(s, "y") { → if (s[i] == 'x') {`,
		`a.go has: if s[i] == 'x' && !strings.HasPrefix(s, "y") { → if (!strings.HasPrefix(s, "y")) {`,
		`a.go has: if s[i] == 'x' && !strings.HasPrefix(s, "y") { → if s[i] != 'x' && !strings.HasPrefix(s, "y") {`,
		`a.go has: if s[i] == 'x' && !strings.HasPrefix(s, "y") { → if s[i] == 'x' && strings.HasPrefix(s, "y") {`,
		"a.go has: found = true → _ = found",
		"a.go has: break → continue",
		"a.go has: return found, nil → return !found, nil",
	} {
		i := slices.Index(got, want)
		if i < 0 {
			t.Errorf("no mutant %s in\n%s", want, strings.Join(got, "\n"))
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	// What is left takes whole bodies out.
	for _, name := range got {
		if !strings.Contains(name, " ⏎ ") {
			t.Errorf("a mutant that is not expected: %s", name)
		}
	}
}

// A mutant is killed by a test that notices it, survives one that does not, and does
// not end where the loop does not.
func TestMutantsAreTried(t *testing.T) {
	dir := aModule(t, map[string]string{
		"a.go": `package example

func sum(n int) (s int) {
	for i := 0; i < n; {
		s += i
		i++
	}
	return s
}

func never() int { return 7 }
`,
		"below/a.go": `package below

type Number int

func Twice(n Number) Number { return 2 * n }

func Thrice(n Number) Number { return 3 * n }
`,
		"below/a_test.go": `package below

import "testing"

func TestTwice(t *testing.T) {
	if Twice(2) != 4 {
		t.Error("it is wrong")
	}
}
`,
		"below/belowtest/a.go": "package belowtest\n\nfunc Two() int { return 2 }\n",
		"a_test.go": `package example

import (
	"testing"

	"example/below"
)

func TestThrice(t *testing.T) {
	if below.Thrice(2) != 6 {
		t.Error("it is wrong")
	}
}

func TestSum(t *testing.T) {
	if sum(1) != 0 || sum(2) < 0 {
		t.Error("it is wrong")
	}
}
`,
	})
	packages, err := loadPackages(dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	var all []*mutant
	for _, p := range packages {
		all = append(all, p.mutants()...)
	}
	s, err := newSuite(t.Context(), dir, "./...", packages, all, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	want := map[string]string{
		"a.go sum: s += i → s -= i":       killed,
		"a.go sum: s += i → _ = s; _ = i": survived,
		"a.go sum: return s → return 0":   survived,
		"a.go sum: i++ → _ = i":           timeout,
		"a.go never: func never() int { return 7 } → func never() int { return 0 }":                                        survived,
		"below/a.go Twice: func Twice(n Number) Number { return 2 * n } → func Twice(n Number) Number { return 2 / n }":    killed,
		"below/a.go Thrice: func Thrice(n Number) Number { return 3 * n } → func Thrice(n Number) Number { return 3 / n }": killed,
	}
	for _, m := range all {
		if strings.HasSuffix(m.in.path, "test") {
			t.Errorf("a mutant of a package for tests: %s", m)
		}
		expected, ok := want[m.name()]
		if !ok {
			continue
		}
		delete(want, m.name())
		got, by, err := s.try(t.Context(), m)
		if err != nil || got != expected {
			t.Errorf("%s: %s by %q, want %s: %v", m, got, by, expected, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("no mutants: %v", want)
	}
}

func TestEquivalentsNeedReasons(t *testing.T) {
	name := filepath.Join(t.TempDir(), "equivalent.txt")
	for text, ok := range map[string]bool{
		"# no mutant\n\na.go f: x → y\n\tno one can tell\n": true,
		"a.go f: x → y\n":                       false,
		"a.go f: x → y\na.go f: x → z\n\twhy\n": false,
		"\twhy\n": false,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := readEquivalents(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if ok && e.reasons["a.go f: x → y"] != "no one can tell" {
			t.Errorf("%q: %v", text, e.reasons)
		}
	}
}
