// Package prosetest has texts for tests of how prose is read, and a model of its fences.
package prosetest

import (
	_ "embed"
	"strings"
	"unicode"
)

//go:embed tags.txt
var tags string

// Tagged is a text with its content and its reasoning (contract section 4).
type Tagged struct{ Name, In, Content, Reasoning string }

// TaggedTexts are the lines of tags.txt.
var TaggedTexts = func() (texts []Tagged) {
	unescape := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\u00a0`, "\u00a0", `\u2003`, "\u2003", `\u212a`, "\u212a")
	for line := range strings.Lines(tags) {
		c := strings.Split(unescape.Replace(strings.TrimSuffix(line, " |\n")), " | ")
		texts = append(texts, Tagged{c[0], c[1], c[2], c[3]})
	}
	return texts
}()

// FenceAfter returns the fence that is open after a line, "" for none.
func FenceAfter(fence, line string) string {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	if line == "" || line[0] != '`' && line[0] != '~' {
		return fence
	}
	info := strings.TrimLeft(line, line[:1])
	run := line[:len(line)-len(info)]
	switch {
	case len(run) < 3:
	case fence == "":
		if run[0] == '~' || !strings.Contains(info, "`") {
			return run
		}
	case run[0] == fence[0] && len(run) >= len(fence) && strings.TrimSpace(info) == "":
		return ""
	}
	return fence
}
