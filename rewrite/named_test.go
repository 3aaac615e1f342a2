package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOtherNamedEventsGetTheEnvelope(t *testing.T) {
	in := named("hermes.status", `{"type": "waiting", "n": 1.50}`)
	wrapped := `{` + envelopeWritten + `,"type": "waiting", "n": 1.50}`
	for form, want := range map[Progress]string{
		ProgressEnvelope: named("hermes.status", wrapped),
		ProgressUnnamed:  unnamed(named("hermes.status", wrapped)),
		ProgressBare:     in,
		ProgressComment:  in,
		ProgressOff:      in,
	} {
		same(t, repairWith(role()+in+text("x")+stop(), Options{Progress: form}), role()+want+text("x")+stop(), string(form)+": bytes")
	}
}

// Without its name an event is a chunk to clients and to a second sidecar. One that would
// say something as a chunk keeps its name.
func TestEventsThatWouldSayMoreAsChunksKeepTheirName(t *testing.T) {
	status := named("hermes.status", `{"kind": "warn", "text": "t"}`)
	for _, c := range []struct {
		before, event string
		keeps         bool
	}{
		{role(), status, false},
		{"", status, false},
		{role() + text("x"), named("approval.request", approval), false},
		{role(), named("other", `{"text": "t"}`), true},
		{role(), named("hermes.status", `{"text": "t", "error": "exit 1"}`), true},
		{role(), named("hermes.status", `{"text": "t", "error": null}`), true},
		{role(), named("hermes.status", `{"text": "t", "\u0065rror": "exit 1"}`), true},
		{role(), named("hermes.status", `{"text": "t", "usage": {"total_tokens": 0}}`), true},
		{role(), named("hermes.status", `{"text": "t", "hermes": {"failed": true}}`), true},
		{role(), named("hermes.status", `{"text": "t", "tool": "terminal", "status": "running", "toolCallId": "c"}`), true},
		{role() + text("x") + finishChunk("stop", realUsage), status, true},
		{role() + text("x") + finishChunk("error", `, "error": {"message": "m"}`), status, true},
	} {
		for _, lines := range []bool{false, true} {
			o := Options{Progress: ProgressUnnamed, StatusLine: lines}
			in := c.before + c.event + text("y") + stop()
			if strings.Contains(c.before, `"finish_reason": "`) {
				in = c.before + c.event + doneFrame
			}
			once := repairWith(in, o)
			if keeps := strings.Contains(once, "event: "); keeps != c.keeps {
				t.Errorf("%s keeps its name: %v", c.event, keeps)
			}
			same(t, repairWith(once, o), once, "twice and once")
			same(t, repairWith(repairWith(in, Options{StatusLine: lines}), o), once, "behind one that keeps names")
		}
	}
}

func TestOtherNamedEventOfAnEmptyObjectGetsTheEnvelope(t *testing.T) {
	out := repair(role() + named("hermes.status", `{ }`) + text("x") + stop())
	if es := decode(out); es[1].name != "hermes.status" || compact(t, es[1].data) != "{"+envelopeWritten+"}" {
		t.Errorf("%q", es[1])
	}
}

func TestNamedEventsOfOtherDataPassByteForByte(t *testing.T) {
	for _, data := range []string{`[1]`, `"x"`, `text`, `{"open": `, `{"a": 1}}`, `7`, ``} {
		in := role() + named("hermes.status", data) + text("x") + stop()
		same(t, repair(in), in, data+": bytes")
	}
}

func TestNamedEventBehindTheFinishChunkGetsTheEnvelope(t *testing.T) {
	out := repair(role() + text("x") + finishChunk("stop", realUsage) + named("hermes.status", `{"type": "x"}`) + doneFrame)
	for _, e := range decode(out) {
		if e.name == "hermes.status" && !strings.Contains(e.data, `"choices"`) {
			t.Errorf("no envelope: %s", e.data)
		}
	}
}

func TestNamedEventWithAnErrorMemberIsNoErrorOfTheStream(t *testing.T) {
	in := role() + text("x") + named("hermes.status", `{"type": "tool_failed", "error": "exit 1"}`) + text("y")
	out, sum := run(in+stop(), Options{}, chatParams, inOne, CauseEOF)
	if sum.Code != "" {
		t.Errorf("a good end has the code %s", sum.Code)
	}
	if e := decode(out)[2]; !strings.Contains(e.data, `"choices"`) {
		t.Errorf("no envelope: %s", e.data)
	}
	look(t, repair(in)).checkErrorFinish(t, "upstream_incomplete")
}

// approval is what the newest Hermes asks of people, with its own choices.
const approval = `{"command": "rm -rf x", "description": "recursive delete", "request_id": "0f", "event": "approval.request", "run_id": "chatcmpl-9", "choices": ["once", "session", "always", "deny"]}`

func TestMembersThatWouldStandTwiceAreRenamed(t *testing.T) {
	for data, want := range map[string]string{
		approval:            `{` + envelopeWritten + `,"command": "rm -rf x", "description": "recursive delete", "request_id": "0f", "hermes_event": "approval.request", "run_id": "chatcmpl-9", "hermes_choices": ["once", "session", "always", "deny"]}`,
		`{"choices": []}`:   `{` + envelopeWritten + `,"hermes_choices": []}`,
		`{"choices": null}`: `{` + envelopeWritten + `,"hermes_choices": null}`,
		`{"id": 1, "object": "x", "created": 2, "model": [], "a": {"id": 1}}`: `{` + envelopeWritten + `,"hermes_id": 1, "hermes_object": "x", "hermes_created": 2, "hermes_model": [], "a": {"id": 1}}`,
		`{"object": "x"}`:          `{` + envelopeWritten + `,"hermes_object": "x"}`,
		`{"created": 2}`:           `{` + envelopeWritten + `,"hermes_created": 2}`,
		`{"model": "m"}`:           `{` + envelopeWritten + `,"hermes_model": "m"}`,
		`{"id": 1, "id": 2}`:       `{` + envelopeWritten + `,"hermes_id": 1, "hermes_id": 2}`,
		`{"\u0069d": 1}`:           `{` + envelopeWritten + `,"hermes_\u0069d": 1}`,
		`{"event": {"type": "x"}}`: `{` + envelopeWritten + `,"event": {"type": "x"}}`,
		`{"events": "x", "ID": 1}`: `{` + envelopeWritten + `,"events": "x", "ID": 1}`,
	} {
		in, nameless := named("approval.request", data), unnamed(named("approval.request", want))
		for form, want := range map[Progress]string{
			ProgressEnvelope: named("approval.request", want), ProgressUnnamed: nameless,
			ProgressBare: in, ProgressComment: in, ProgressOff: in,
		} {
			for _, before := range []string{role() + text("y"), role() + text("y") + g2Start("t", "💻", "l", "1")} {
				out := repairWith(before+in+text("x")+stop(), Options{Progress: form})
				if !strings.Contains(out, "\n\n"+want+text("x")) {
					t.Errorf("%s: %s becomes\n%s", form, in, out)
				}
				same(t, repairWith(out, Options{Progress: form}), out, "twice and once")
			}
		}
	}
}

// A tool event may have choices of its own, too. It is not one that another sidecar has
// written, and clients that loop over choices break on them.
func TestChoicesOfAToolEventAreRenamed(t *testing.T) {
	const tool = `"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "c", "status": "running"`
	for _, choices := range []string{`null`, `{}`, `[]`, `["once", "deny"]`, `"x"`} {
		in := role() + named("hermes.tool.progress", `{`+tool+`, "choices": `+choices+`}`) + g2End("terminal", "c") + text("x") + stop()
		want := `{` + envelopeWritten + `,` + tool + `, "hermes_choices": ` + choices + `}`
		for form, want := range map[Progress]string{
			ProgressEnvelope: named("hermes.tool.progress", want), ProgressUnnamed: unnamed(named("hermes.tool.progress", want)),
		} {
			out := repairWith(in, Options{Progress: form})
			if !strings.Contains(out, "\n\n"+want) {
				t.Errorf("%s: %s becomes\n%s", form, in, out)
			}
			look(t, out).checkLifecycle(t)
			same(t, repairWith(out, Options{Progress: form}), out, "twice and once")
		}
		same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes in the form bare")
	}
}

// Wrapped, an event is no chunk: what is in it is its own affair, for a second
// sidecar as well.
func TestWrappedEventsAreNoChunks(t *testing.T) {
	for _, event := range []string{
		named("hermes.status", `{"type": "tool_failed", "error": "exit 1"}`),
		named("tool.failed", `{"error": {"message": "exit 1"}, "usage": {"prompt_tokens": 1}, "hermes": {"failed": true}}`),
		named("error", `{"message": "boom"}`),
		named("approval.request", approval),
	} {
		for _, c := range []struct{ before, behind, code string }{
			{role() + text("x"), stop(), ""},
			{role() + text("x"), "", CodeIncomplete},
			{"", role() + text("x") + stop(), ""},
			{role() + finishChunk("stop", zeroUsage), doneFrame, CodeCrashed},
			{role() + text("x") + finishChunk("error", `, "error": {"message": "m"}`), doneFrame, CodeAgentError},
			{role() + text("a\n`💻 ls"), text("b") + stop(), ""},
		} {
			in := c.before + event + c.behind
			once, sum := run(in, Options{}, chatParams, inOne, CauseEOF)
			if sum.Code != c.code {
				t.Errorf("%s: code %q, want %q", in, sum.Code, c.code)
			}
			if n := strings.Count(once, "event: "); n != 1 {
				t.Errorf("%d events in\n%s", n, once)
			}
			twice, sum := run(once, Options{}, chatParams, oneByte, CauseEOF)
			same(t, twice, once, "twice and once")
			wasOurs := c.code == CodeIncomplete || c.code == CodeCrashed
			if sum.Code != c.code && !(wasOurs && sum.Code != "") {
				t.Errorf("the second time: code %q, want %q", sum.Code, c.code)
			}
		}
	}
}

func TestStatusLinesOfUpstreamsState(t *testing.T) {
	for _, c := range []struct {
		in, description string
		done            bool
	}{
		{named("hermes.status", `{"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s"}`), "⏳ Retrying in 2.0s", true},
		{named("approval.request", approval), "Approval needed: rm -rf x", false},
		{named("hermes.status", `{"text": "key sk-abcdefghijklmnop"}`), "key [redacted]", true},
		{named("hermes.status", `{"text": 7}`), "", false},
		{named("hermes.status", `{"text": ""}`), "", false},
		{named("hermes.status", `{"text": "t", "event": {"type": "status"}}`), "", false},
		{named("other", `{"text": "t", "command": "c", "": "e"}`), "", false},
	} {
		for _, form := range ProgressForms() {
			out := repairWith(role()+c.in+text("x")+stop(), Options{StatusLine: true, Progress: form})
			var got struct {
				Event struct {
					Type string
					Data struct {
						Description string
						Done        bool
					}
				}
			}
			if err := json.Unmarshal([]byte(decode(out)[1].data), &got); err != nil && (form == ProgressEnvelope || form == ProgressUnnamed) {
				t.Fatalf("%v in %s", err, out)
			}
			want := c.description
			if form != ProgressEnvelope && form != ProgressUnnamed {
				want = ""
			}
			if got.Event.Data.Description != want || want != "" && (got.Event.Data.Done != c.done || got.Event.Type != "status") {
				t.Errorf("%s: %+v of %s", form, got, c.in)
			}
			if want == "" && strings.Contains(out, `"data":{"description":`) {
				t.Errorf("%s: an empty status line of %s", form, c.in)
			}
			same(t, repairWith(out, Options{StatusLine: true, Progress: form}), out, "twice and once")
		}
		if out := repair(role() + c.in + text("x") + stop()); strings.Contains(out, `"data":{"description":`) {
			t.Errorf("a status line although it is off:\n%s", out)
		}
	}
}
