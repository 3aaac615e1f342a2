package rewrite

import (
	"strings"
	"testing"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/tidwall/gjson"
)

// linesOf returns what users read of the tools and events of a stream: status lines, and the names and the labels of
// cards.
func linesOf(stream string) (lines []string) {
	for _, e := range decode(stream) {
		for _, path := range []string{"event.data.description", "item.name", `item.arguments|@fromstr.label`, `item.provider_function.arguments|@fromstr.label`} {
			if v := gjson.Get(e.data, path); v.Exists() {
				lines = append(lines, v.Str)
			}
		}
	}
	return lines
}

// Whatever users read of a label, a command or a text of upstream's is one line of at most 200 characters that looks
// like what runs (contract section 2). The members of upstream's event stay as they are.
func TestWhatUsersRead(t *testing.T) {
	for raw, want := range map[string]string{
		"rm \u202efdp.exe\u2069 שלום":        `rm \u202efdp.exe\u2069 שלום`,
		"echo ok\nrm -rf /\n\n":              `echo ok\nrm -rf /\n\n`,
		"a\tb\r\n\x00\x1b[31m\x7f\u0085":     `a\tb\r\n\x00\x1b[31m\x7f\u0085`,
		"a\u200b\u200d\u2060\ufeff\u00adb":   `a\u200b\u200d\u2060\ufeff\u00adb`,
		"a\u3164\u2800\u115f\u034f\ufe0f":    `a\u3164\u2800\u115f\u034f\ufe0f`,
		"a\u2028b\u2029c\u00a0d\u3000e":      `a\u2028b\u2029c\u00a0d\u3000e`,
		"\U000e0041\U000e0100\ufff9":         `\U000e0041\U000e0100\ufff9`,
		"\u2d7f\ufffc\U00013441\U0001d159":   `\u2d7f\ufffc\U00013441\U0001d159`,   // blank, but no space
		"⏱️ 👩\u200d💻 ❤️\u200d🔥 ℹ️ 👩🏽\u200d💻": "⏱️ 👩\u200d💻 ❤️\u200d🔥 ℹ️ 👩🏽\u200d💻", // parts of an emoji
		"💻\u200dx 💻\u200d\u200d💻 x\u200d💻":   `💻\u200dx 💻\u200d\u200d💻 x\u200d💻`,
		"💻\ufe0f\ufe0fx\ufe0f":               "💻\ufe0f" + `\ufe0fx\ufe0f`,
		"💻\u200d":                            `💻\u200d`,
		`a\nb "q" <b> ` + "`c`":              `a\nb "q" <b> ` + "`c`",
		strings.Repeat("x", 300):             strings.Repeat("x", 300),
		strings.Repeat("\n", 300):            strings.Repeat(`\n`, 300),
		strings.Repeat("é", 1<<16):           strings.Repeat("é", 300),
		strings.Repeat("a", 190) + "\u202e":  strings.Repeat("a", 190) + `\u202e`,
	} {
		for kind, in := range map[string]string{
			"label":   g2Start("terminal", "💻", raw, "c1") + g2End("terminal", "c1"),
			"marker":  markerChunk("💻", strings.ReplaceAll(raw, "\n", "\r")),
			"name":    named(progressEvent, `{"tool": `+asciiJSON("t"+raw)+`, "toolCallId": "c1", "status": "running"}`) + g2End("t"+raw, "c1"),
			"emoji":   named(progressEvent, `{"tool": "t", "emoji": `+asciiJSON("x"+raw)+`, "label": "l", "toolCallId": "c1", "status": "running"}`),
			"status":  statusOf(raw),
			"command": named("approval.request", `{"command": `+asciiJSON(raw)+`, "request_id": "r"}`),
		} {
			for _, o := range []Options{{NoCards: true}, {NoStatusLine: true}, {Progress: ProgressUnnamed}} {
				out := repairWith(turn(in, text("x")), o)
				lines := linesOf(out)
				if len(lines) == 0 && (!o.NoStatusLine && o.NoCards || kind == "label") {
					t.Errorf("%s, %+v: nothing is shown", kind, o)
				}
				for _, line := range lines {
					if n := len([]rune(line)); n > marker.MaxShown || strings.IndexFunc(line, unicode.IsControl) >= 0 || strings.ContainsAny(line, "\u202e\u2069\u2028\u200b\u2060\ufeff\u00ad\u3164\u2800") {
						t.Errorf("%s, %+v: %d characters: %q", kind, o, n, line)
					}
				}
				if kind == "label" && lines != nil && len([]rune(want)) <= 60 {
					contains(t, strings.Join(lines, "|"), want)
				}
				if strings.HasPrefix(in, "event: ") && o.Progress == "" {
					contains(t, out, in[strings.Index(in, "{")+1:strings.Index(in, "}")]) // upstream's members
				}
				same(t, repairWith(out, o), out, "twice and once")
			}
		}
	}
	for _, c := range [][2]string{
		{named("approval.request", `{"command": "echo ok\nrm \u202e-rf /", "request_id": "r"}`), `Approval needed: echo ok\nrm \u202e-rf /`},
		{statusOf("⏱️ Rate limited.\nWaiting"), `⏱️ Rate limited.\nWaiting`},
		{g2Start("terminal", "💻", "rm \u202efdp", "c"), `💻 rm \u202efdp`},
		{g2Start("terminal", "💻", strings.Repeat("x", 1000), "c"), "💻 " + strings.Repeat("x", marker.MaxShown-3) + "…"},
		{g2Start("terminal", "💻", strings.Repeat("x", marker.MaxShown-2), "c"), "💻 " + strings.Repeat("x", marker.MaxShown-2)},
		{g2Start("terminal", "💻", strings.Repeat("\x01", 1000), "c"), "💻 " + strings.Repeat(`\x01`, (marker.MaxShown-3)/4) + "…"},
		{g2Start("terminal", "💻", " \n", "c"), "💻 terminal"},
	} {
		equal(t, linesOf(repairWith(turn(c[0], text("x")), Options{NoCards: true}))[0], c[1], c[0])
	}
}
