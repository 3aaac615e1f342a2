package rewrite

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var updateWirePage = flag.Bool("update-wire", false, "write what clients get into docs/wire.md")

const (
	wirePage = "../docs/wire.md"
	// envelopeOfPage is what the page abbreviates: the members that all chunks of a stream share.
	envelopeOfPage = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164799,"model":"hermes-agent",`
)

// beforeAndAfter is two fenced blocks, one after the other, whose info strings say what
// they hold: what is sent, with what becomes of the connection, and what is received.
var beforeAndAfter = regexp.MustCompile("(?s)(```(?:sse|json) (hermes|hermes stores|hermes drawn|hermes ended|hermes cut|request|answer)\n((?:[^`]|`[^`])*?)```\n(?:[^`]|`[^`])*?```(?:sse|json) received\n)((?:[^`]|`[^`])*?)(```)")

// TestWirePageShowsWhatTheEngineDoes: each example of docs/wire.md gives the result that the page shows.
func TestWirePageShowsWhatTheEngineDoes(t *testing.T) {
	page, err := os.ReadFile(wirePage)
	if err != nil {
		t.Fatal(err)
	}
	if all, pairs := strings.Count(string(page), "\n```sse ")+strings.Count(string(page), "\n```json "), len(beforeAndAfter.FindAll(page, -1)); pairs < 10 || all != 2*pairs {
		t.Errorf("%d examples, and %d pairs of them", all, pairs)
	}
	updated := beforeAndAfter.ReplaceAllFunc(page, func(pair []byte) []byte {
		m := beforeAndAfter.FindSubmatch(pair)
		kind, sent, said := string(m[2]), string(m[3]), string(m[4])
		received := example(kind, sent)
		if received == sent {
			t.Errorf("nothing changes in\n%s", sent)
		}
		if received != said && !*updateWirePage {
			t.Errorf("%s\n%sbecomes\n%sthe page says\n%s", kind, sent, received, said)
		}
		return []byte(string(m[1]) + received + string(m[5]))
	})
	if *updateWirePage {
		if err := os.WriteFile(wirePage, updated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// example returns the result of what is sent: a request, an answer that is not streamed, or frames of a
// stream that goes on, has ended or was cut. Only "hermes drawn" has the cards and the status lines that the
// page leaves out elsewhere.
func example(kind, sent string) string {
	switch kind {
	case "request":
		healed, _ := Healing{Memory: fakeMemory{}}.Heal([]byte(sent))
		return string(healed)
	case "answer":
		return string(RepairAnswer([]byte(sent), new(Options), nil).Body)
	}
	p := Params{Active: true}
	if kind == "hermes stores" {
		p.Details = &stored{calls: map[string][]string{"call_1": {`{"command": "ls -la"}`, `{"output": "a.go\nb.go", "exit_code": 0, "error": null}`}}}
	}
	s := New(&Options{NoCards: kind != "hermes drawn", NoStatusLine: kind != "hermes drawn"}, p)
	in := strings.ReplaceAll(sent, "{… ", "{"+envelopeOfPage)
	if kind != "hermes cut" {
		in += "\n" // the last frame's blank line, which the page leaves out
	}
	out := s.Feed(nil, []byte(in), epoch)
	switch kind {
	case "hermes ended":
		out = s.Finish(out, CauseEOF)
	case "hermes cut":
		out = s.Finish(out, CauseAborted)
	}
	return strings.TrimSuffix(strings.ReplaceAll(string(out), "{"+envelopeOfPage, "{… "), "\n")
}
