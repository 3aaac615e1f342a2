package lint

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hermes-sidecar/hermes-sidecar/"

// floors are the packages of the engine and of logs, each with the packages of this module that it may import.
// Other packages may import any.
var floors = map[string]string{
	"rewrite/sse":               "",
	"rewrite/internal/jsonspan": "",
	"rewrite/internal/marker":   "jsonspan",
	"rewrite/internal/redact":   "jsonspan",
	"rewrite/internal/contract": "jsonspan marker",
	"rewrite/internal/requests": "jsonspan contract",
	"rewrite/internal/record":   "jsonspan marker contract",
	"rewrite/internal/prose":    "jsonspan marker contract",
	"rewrite/internal/chunk":    "jsonspan marker contract redact prose sse",
	"rewrite/internal/tooltext": "jsonspan marker contract",
	"rewrite/internal/encode":   "jsonspan marker contract requests redact prose chunk tooltext sse",
	"rewrite/internal/chat":     "jsonspan marker contract record requests redact prose chunk tooltext encode sse",
	"rewrite/internal/agentapi": "jsonspan contract requests redact chunk sse",
	"rewrite/internal/whole":    "jsonspan marker contract record redact prose chunk tooltext",
	"rewrite":                   "jsonspan marker contract record redact chunk tooltext chat agentapi whole sse",
	"resume/log":                "",
	"resume/redis":              "log",
}

// TestHouse checks that imports run one way, as CONTRIBUTING.md says.
func TestHouse(t *testing.T) {
	seen := map[string]bool{}
	goFiles(t, func(name string, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := path.Dir(name)
		for _, imported := range f.Imports {
			of, _ := strconv.Unquote(imported.Path.Value)
			checkImport(t, dir, of)
		}
		if strings.HasPrefix(dir, "rewrite") {
			checkNoGoroutine(t, name, f)
		}
		seen[dir] = true
	})
	for dir := range floors {
		if !seen[dir] {
			t.Errorf("there is no package %s", dir)
		}
	}
}

// checkNoGoroutine checks that a file of the engine starts no goroutine and waits for none, so
// that .ci/run need not look for races there.
func checkNoGoroutine(t *testing.T, name string, f *ast.File) {
	for _, imported := range f.Imports {
		if strings.HasPrefix(imported.Path.Value, `"sync`) {
			t.Errorf("%s imports %s", name, imported.Path.Value)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, starts := n.(*ast.GoStmt); starts {
			t.Errorf("%s starts a goroutine", name)
		}
		return true
	})
}

// checkImport checks that the package in dir may import the package of.
func checkImport(t *testing.T, dir, of string) {
	of, ours := strings.CutPrefix(of, module)
	allowed, isFloor := floors[dir]
	switch {
	case isFloor && ours && !strings.Contains(" "+allowed+" ", " "+path.Base(of)+" "),
		strings.HasPrefix(dir, "rewrite") && (of == "net/http" || strings.Contains(of, "caddy") || strings.Contains(of, "zap")),
		(strings.HasPrefix(dir, "proxy") || dir == "resume" || dir == "resume/log" || dir == "desk" || strings.HasPrefix(dir, "queue") && dir != "queue/queuecaddy" || dir == "internal/client") && (strings.HasPrefix(of, "caddymodule") || strings.Contains(of, "caddyserver") || strings.Contains(of, "zap")),
		strings.HasPrefix(dir, "proxy") && (strings.HasPrefix(of, "resume") || strings.HasPrefix(of, "queue") || strings.HasPrefix(of, "desk")),
		dir == "queue" && of == "net/http",
		dir == "rewrite/sse" && strings.Contains(of, "json"):
		t.Errorf("%s must not import %s", dir, of)
	}
}
