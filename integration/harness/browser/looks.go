package browser

import (
	_ "embed"
	"fmt"
	"testing"
)

// Looks runs a test in light and in dark, on a wide and on a narrow screen.
func Looks(t *testing.T, test func(t *testing.T, name string, b *Tab)) {
	for _, scheme := range []string{"light", "dark"} {
		for screen, width := range map[string]int64{"wide": 1280, "narrow": 360} {
			name := screen + " " + scheme
			t.Run(name, func(t *testing.T) { test(t, name, New(t, width, 860, "prefers-color-scheme: "+scheme)) })
		}
	}
}

//go:embed legible.js
var legible string

// CheckLegible wants the page to have at least so many texts, that they and the frames of what a selector names, ""
// for none, can be seen, and that nothing is wider than the screen.
func (b *Tab) CheckLegible(what string, texts int, frames string) {
	b.T.Helper()
	if poor := Eval[string](b, fmt.Sprintf("(%s)(%d, %q)", legible, texts, frames)); poor != "" {
		b.T.Errorf("%s: hard to see:\n%s", what, poor)
	}
	if over := Eval[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		b.T.Errorf("%s: %d pixels wider than the screen", what, over)
	}
}
