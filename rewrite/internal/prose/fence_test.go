package prose

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

func TestFencesOpenAndClose(t *testing.T) {
	for content, open := range map[string]bool{
		"":                      false,
		"```":                   false, // not before its line ends
		"```\n":                 true,
		"```go\n":               true,
		"``` go `x`\n":          false,
		"~~~ go `x`\n":          true,
		"~~~\n":                 true,
		"``\n":                  false,
		"~~\n":                  false,
		"a ```\n":               false,
		"  ```\n":               true,
		"\t```\n":               true,
		"```\nx\n```\n":         false,
		"```\nx\n```  \n":       false,
		"```\nx\n  ```\n":       false,
		"```\nx\n````\n":        false,
		"```\nx\n``` y\n":       true,
		"````\nx\n```\n":        true,
		"```\nx\n~~~\n":         true,
		"~~~\nx\n```\n":         true,
		"~~~\nx\n~~~\n":         false,
		"```\n\n\n":             true,
		"```\nx\n```\n```\n":    true,
		"```x```\n":             false,
		"```\nx\n```y```\n":     true,
		"```\nx```\n":           true,
		"text\n\n```\ncode\n\n": true,
	} {
		var f Fence
		for _, r := range content {
			f.Step(r)
		}
		if f.Open() != open {
			t.Errorf("%q: open = %v, want %v", content, f.Open(), open)
		}
		after := fenceOf(content)
		if (after != "") != open {
			t.Errorf("%q: the tests' own model says %q", content, after)
		}
	}
}

// fenceOf returns the fence that is open after complete lines.
func fenceOf(content string) (fence string) {
	line := ""
	for _, r := range content {
		if r == '\n' {
			fence = prosetest.FenceAfter(fence, line)
			line = ""
			continue
		}
		line += string(r)
	}
	return fence
}
