package doctor

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// content matches the text of a chunk as Hermes writes it.
var content = regexp.MustCompile(`"delta": \{"content": ("(?:[^"\\]|\\.)*")\}`)

// rechunked returns a stream as a hop sends it that decodes chunks, and cuts their text
// every three characters.
func rechunked(t testing.TB, stream []byte) []byte {
	t.Helper()
	var out strings.Builder
	for frame := range strings.SplitAfterSeq(string(stream), "\n\n") {
		m := content.FindStringSubmatch(frame)
		if m == nil {
			out.WriteString(frame)
			continue
		}
		var text string
		if err := json.Unmarshal([]byte(m[1]), &text); err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk([]rune(text), 3) {
			b, _ := json.Marshal(string(part))
			again := strings.Replace(frame, m[0], `"delta":{"content":`+string(b)+`}`, 1)
			out.WriteString(strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(again))
		}
	}
	return []byte(out.String())
}

// TestOptions that fit a stream, each with its condition: markers are to be trusted only after a
// hop that cuts text anew, zero usage may pass where a crash does not look the same, and cards
// are for tools.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name      string
		again     bool // chunked anew
		option    string
		when, why string // how they begin, and what they have; "" for an option that does not fit
	}{
		{"g0-v0.8.0/one_tool", false, "imitations trust", "", ""},
		{"g0-v0.8.0/one_tool", true, "imitations trust", "something between this command and Hermes rewrites the chunks", "real tools"},
		{"g0-v0.8.0/plain", true, "imitations trust", "something between", ""},
		{"g0-v0.8.0/model_imitates", false, "imitations trust", "only if", "(1)"},
		{"g2-v0.13.0/one_tool", true, "imitations trust", "", ""},
		{"g2-v0.13.0/model_imitates", false, "imitations trust", "only if", ""}, // nothing shows that it is so new
		{"agent-loop/g0-v0.8.0/plain", true, "imitations trust", "something between", ""},
		{"g4-transcribed/reasoning_tools", true, "imitations trust", "", ""},
		{"agent-loop/g0-v0.8.0/no_usage", false, "zero_usage pass", "if the answer is whole", "A crash before"},
		{"live-g3-v0.18.2/nousage", false, "zero_usage pass", "if the answer is whole", ""}, // nothing shows that it is so new
		{"g0-v0.8.0/one_tool", false, "zero_usage pass", "", ""},
		{"g0-v0.8.0/parallel_tools", false, "cards off", "if people use Open WebUI 0.6 or 0.9", "each card (3 of them in this answer) twice"},
		{"live-g4-v0.21.5/danger", false, "cards off", "if people use Open WebUI 0.6 or 0.9", "(1 of them in this answer)"},
		{"live-g5-v0.22.2/err401", false, "cards off", "if people use Open WebUI 0.6 or 0.9", "each card twice"},
	} {
		stream := recorded(t, c.name)
		if c.again {
			stream = rechunked(t, stream)
		}
		a := examined(t, c.name, stream)
		var got Option
		for _, o := range a.Options {
			if o.Option == c.option {
				got = o
			}
		}
		if (got.When == "") != (c.when == "") || !strings.HasPrefix(got.When, c.when) || !strings.Contains(got.Why, c.why) {
			t.Errorf("%+v: %+v", c, got)
		}
		if hasChunks := a.finding("chunks").Level == Warn; hasChunks != c.again {
			t.Errorf("%+v: %+v", c, a.Findings)
		}
	}
	r := readWhole(recorded(t, "live-g3-v0.18.2/nousage"))
	if of := options(span{19_000, 19_000}, r, nil); of[0].Option != "zero_usage pass" || of[0].When != "always, with this provider" {
		t.Errorf("of a release that reports its failures: %+v", of)
	}
}

// TestPageHasTheOptions that are suggested, which are not those of the configuration.
func TestPageHasTheOptions(t *testing.T) {
	r := readWhole(rechunked(t, recorded(t, "g0-v0.8.0/one_tool")))
	r.summary.ZeroUsagePassed = true
	set := map[string]bool{}
	for _, o := range options(anyRelease, r, nil) {
		if !strings.Contains(page(t), "| `"+o.Option+"` |") {
			t.Errorf("the page has no %s", o.Option)
		}
		name, _, _ := strings.Cut(o.Option, " ")
		set[name] = true
	}
	if rest := options(anyRelease, r, set); len(set) != 5 || rest == nil || len(rest) != 0 {
		t.Errorf("of %v, %+v", set, rest)
	}
}
