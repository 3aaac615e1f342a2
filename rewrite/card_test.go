package rewrite

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

var cardForms = []Progress{ProgressEnvelope, ProgressUnnamed}

// The page about the wire has the frames of a card, byte for byte (TestWirePageShowsWhatTheEngineDoes). In the form
// unnamed they have no names.
func TestCards(t *testing.T) {
	in := turn(g2Start("terminal", "💻", "ls -la", "call_1"), g2End("terminal", "call_1"), text("x"))
	same(t, repairWith(in, Options{Progress: ProgressUnnamed}), unnamed(repair(in)), "bytes")
}

// A card's name is one line of at most so many characters. The name of its function is the tool's if an API
// takes that.
func TestNamesOfCards(t *testing.T) {
	const all = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
	x := strings.Repeat("x", maxCardName)
	names := [][5]string{ // tool, emoji, label, name, name of the function
		{"read_file", "💻", "ls -la", "💻 ls -la", "read_file"},
		{"read_file", "⚙️", " a  b\t\n c ", `⚙️ a  b\t\n c`, "read_file"},
		{"read_file", "💻", "echo \"a\" `b` <c> & d \\ \x00\x7f\u2028e\u202e\u200b", "💻 echo \"a\" `b` <c> & d \\ " + `\x00\x7f\u2028e\u202e\u200b`, "read_file"},
		{"read_file", "💻", x, "💻 " + x[3:] + "…", "read_file"},
		{"read_file", "💻", x[2:], "💻 " + x[2:], "read_file"},
		{"read_file", "💻", strings.Repeat("é", 5000), "💻 " + strings.Repeat("é", maxCardName-3) + "…", "read_file"},
		{"read_file", "💻\u202e", "x", `💻\u202e x`, "read_file"},
		{"mcp-9", "👩\u200d💻", "x", "👩\u200d💻 x", "mcp-9"},
		{all, "", "x", "x", all},
		{"read_file", "💻", "", "💻 read_file", "read_file"},
		{"read_file", "💻", " \n", "💻 read_file", "read_file"},
		{"read_file", "", "", "read_file", "read_file"},
		{"read_file", x + x, "y", x[1:] + "…", "read_file"},
	}
	for _, tool := range []string{all + "a", "a b", "a.b", "a/b", "@a", "a[", "a`", "a{", "é", `a"`} {
		names = append(names, [5]string{tool, "💻", "x", "💻 x", "tool"})
	}
	for _, c := range names {
		card := cardsOf(t, repairWith(role()+g2Start(c[0], c[1], c[2], "call_1"), Options{}))[0]
		for _, item := range []wireItem{card.started, card.ended} {
			equal(t, item.Name, c[3], "the name")
			equal(t, item.Provider.Name, c[4], "the name of the function")
		}
	}
}

// Every tool of every recording gets its card, which another sidecar leaves as it is, and completes if the first one
// dies.
func TestCardsOfRecordings(t *testing.T) {
	t.Parallel()
	for _, r := range everyNth(chats(t, "g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3", "g4-transcribed", "agent-loop/g0-v0.8.0")) {
		for _, form := range cardForms {
			o := Options{Progress: form}
			out := repairWith(r.body, o)
			v, cards := look(t, out), cardsOf(t, out)
			for i, s := range v.starts() {
				c := cards[i].started
				label, cut := strings.CutSuffix(c.label(t), "…")
				if c.CallID != s.id || label != s.label && !(cut && strings.HasPrefix(s.label, label)) || !strings.HasPrefix(c.Name, s.emoji+" ") {
					t.Errorf("%s: the card %s, %s of %s, %s", r.name(), c.CallID, c.Name, s.id, clip(s.label, 0))
				}
			}
			off := Options{Progress: form, NoCards: true, NoStatusLine: true}
			without := repairWith(r.body, off)
			plain := look(t, without)
			if plain.content != v.content || plain.reasoning != v.reasoning || plain.story() != v.story() || strings.Contains(without, "output_item") {
				t.Errorf("%s: %s, without cards %s", r.name(), v.story(), plain.story())
			}
			// A sidecar without the option changes no card, and one with it makes those that one before it has not made.
			same(t, repairWith(out, off), out, r.name()+": without the option after it")
			if after := cardsOf(t, repairWith(without, o)); !reflect.DeepEqual(after, cards) {
				t.Errorf("%s: cards of the second sidecar differ", r.name())
			}
			for _, other := range []Progress{ProgressBare, ProgressComment, ProgressOff} { // have none
				for _, in := range []string{r.body, out} {
					equal(t, strings.Count(repairWith(in, Options{Progress: other}), "output_item"), 0, r.name()+": cards with "+string(other))
				}
			}
			if len(cards) == 0 || len(r.body) > 20_000 {
				continue
			}
			for at := 0; at < len(out); at += 1 + len(out)/30 {
				for _, second := range []Options{o, off, {Progress: form, NoStatusLine: true}} {
					twice, _ := run(out[:at], second, chatParams, inOne, CauseAborted)
					cardsOf(t, twice)
				}
			}
		}
	}
}

// Whatever ends a tool, its card gets its output (see FuzzLifecycle); an event that is dropped gets none.
func TestEveryEndOfACard(t *testing.T) {
	a := g2Start("terminal", "💻", "a", "call_1")
	var many strings.Builder
	for i := range 2 * maxOpenTools {
		many.WriteString(g2Start("terminal", "💻", strings.Repeat("l", 300), fmt.Sprint("call_", i)))
	}
	id := strings.Repeat("i", maxCardID-len(`""`)) // as long as is repeated
	for name, c := range map[string]struct {
		in    string
		o     Options
		cards int
	}{
		"a long id":            {g2Start("terminal", "💻", "a", id) + g2End("terminal", id) + text("x") + stop(), Options{}, 1},
		"a longer id":          {g2Start("terminal", "💻", "a", id+"i") + g2End("terminal", id+"i") + text("x") + stop(), Options{}, 0},
		"one after the other":  {markerChunk("💻", "a") + markerChunk("📖", "b") + text("x") + stop(), Options{ParallelWindow: -1}, 2},
		"too many":             {many.String() + text("x") + stop(), Options{}, 2 * maxOpenTools},
		"trusted at the end":   {text("a\n`💻 ls") + text("`"), Options{Imitations: ImitationsTrust}, 1},
		"after the finish":     {text("x") + finishChunk("stop", realUsage) + a + doneFrame, Options{}, 0},
		"after [DONE]":         {text("x") + stop() + a + g1("t", "💻", "l"), Options{}, 0},
		"no name":              {named(progressEvent, `{"toolCallId": "c", "status": "running"}`) + text("x") + stop(), Options{}, 1},
		"an end without an id": {g1("terminal", "💻", "a") + named(progressEvent, `{"tool": "terminal", "status": "completed"}`) + text("x") + stop(), Options{}, 1},
		"members of its own":   {named(progressEvent, `{"type": "x", "it\u0065m": {"type": "function_call"}, "output_index": 7, "tool": "t", "label": "l", "toolCallId": "c", "status": "running"}`) + text("x") + stop(), Options{}, 1},
	} {
		for _, form := range cardForms {
			o := c.o
			o.Progress = form
			out := repairWith(role()+c.in, o)
			equal(t, len(cardsOf(t, out)), c.cards, name)
			look(t, out).checkLifecycle(t)
			if o.Imitations == "" {
				same(t, repairWith(out, o), out, name+": twice and once")
			}
			if strings.Contains(c.in, `"it\u0065m"`) && (!strings.Contains(out, `"hermes_type": "x", "hermes_it\u0065m": {"type": "function_call"}, "hermes_output_index": 7`) || strings.Count(out, `"type":"response.`) != 3) {
				t.Errorf("%s: members stand twice:\n%s", name, out)
			}
		}
	}
}

// Items of the Responses API that other upstreams send in chunks pass as they are.
func TestItemsOfUpstreamsPass(t *testing.T) {
	item := func(more string) string {
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {}, "finish_reason": null}], "type": "response.output_item.added", "item": {` + more + "}}\n\n"
	}
	for _, in := range []string{
		role() + item(`"type": "function_call", "id": "a", "call_id": "a"`) + item(`"type": "function_call_output", "id": "b", "call_id": "a"`) + text("x") + stop(),
		role() + g2Start("terminal", "💻", "a", "call_1") + item(`"type": "function_call_output", "call_id": "call_1"`) + g2End("terminal", "call_1") + item(`"type": "function_call_output", "call_id": "call_1"`) + text("x") + stop(),
		role() + named(progressEvent, `{"tool": "t", "toolCallId": "call_1", "status": "running", "item": {"type": "function_call", "call_id": "call_1"}}`) + g2End("t", "call_1") + text("x") + stop(),
	} {
		same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes")
		o := Options{NoCards: true}
		once := repairWith(in, o)
		equal(t, strings.Count(once, `"function_call_output"`), strings.Count(in, `"function_call_output"`), "items")
		same(t, repairWith(once, o), once, "twice and once")
	}
}

// Arguments are JSON within JSON, whatever is in the label, which is one line.
func TestLabelsOfCards(t *testing.T) {
	for raw, want := range map[string]string{
		`"ls -la"`: "ls -la", `""`: "", `"a\"b\\c\/d\b\f\n\r\te\u0001\u007f\u00e9é\ud83d\udcbb💻\u2028"`: `a"b\c/d\b\f\n\r\te\x01\x7féé💻💻\u2028`,
		`"\\\\\\\""`: `\\\"`, `"\\n\\u0000\u0000"`: `\n\u0000\x00`, `"{\"label\": \"x\"}"`: `{"label": "x"}`,
	} {
		in := role() + named(progressEvent, `{"tool": "t", "emoji": "💻", "label": `+raw+`, "toolCallId": "c", "status": "running"}`) + text("x") + stop()
		equal(t, cardsOf(t, repairWith(in, Options{}))[0].started.label(t), want, raw)
	}
	// One half of a pair of surrogates is no character, and no database takes it.
	in := role() + named(progressEvent, `{"tool": "t", "emoji": "\udcbb", "label": "a\ud83d b", "toolCallId": "c", "status": "running"}`)
	c := cardsOf(t, repairWith(in, Options{}))[0].started
	if c.label(t) != "a\ufffd b" || c.Name != "\ufffd a\ufffd b" {
		t.Errorf("%+v", c)
	}
	// A long one is cut, between characters.
	for _, unit := range []string{"x", `\"`, `\u00e9`, "💻", `\ud83d\udcbb`} {
		in := role() + named(progressEvent, `{"tool": "t", "label": "`+strings.Repeat(unit, 1<<16)+`", "toolCallId": "c", "status": "running"}`)
		label := cardsOf(t, repairWith(in, Options{}))[0].started.label(t)
		if n := len([]rune(label)); n != marker.MaxShown || !strings.HasSuffix(label, "…") || strings.Contains(label, "\ufffd") {
			t.Errorf("%d times %q is left: …%q", n, unit, label[max(0, len(label)-20):])
		}
	}
}

// A tool that has a card has no status line as well, whichever of two sidecars has written what: neither where the
// one in front has no cards, nor where the end of a tool keeps the card that its start has made.
func TestCardTakesThePlaceOfAStatusLine(t *testing.T) {
	line := func(done string) string {
		return `,"event":{"type":"status","data":{"description":"💻 ls","done":` + done + `}}}`
	}
	start := `{` + envelopeWritten + `,"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "call_1", "status": "running"`
	end := `{` + envelopeWritten + `,"tool": "terminal", "toolCallId": "call_1", "status": "completed"` + line("true")
	for _, args := range []string{"", `,"args":{"command":"ls"}`} {
		for _, form := range cardForms {
			in := turn(named(progressEvent, start+args+line("false")), named(progressEvent, end), text("x"))
			if form == ProgressUnnamed {
				in = unnamed(in)
			}
			o := Options{Progress: form}
			out := repairWith(in, o)
			equal(t, len(cardsOf(t, out)), 1, "cards")
			same(t, repairWith(out, o), out, "twice and once")
		}
	}
}
