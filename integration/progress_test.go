package integration

import (
	"regexp"
	"strings"
	"testing"
)

var forms = []string{"envelope", "bare", "unnamed", "comment", "off"}

// fields are upstream's five members of a tool event, and the two that a
// completed one has.
var (
	fields      = regexp.MustCompile(`^\{"tool": ?"[a-z_]+", ?"emoji": ?"[^"]+", ?"label": ?".*", ?"toolCallId": ?"[^"]+", ?"status": ?"running"\}$`)
	fieldsEnd   = regexp.MustCompile(`^\{"tool": ?"[a-z_]+", ?"toolCallId": ?"[^"]+", ?"status": ?"completed"\}$`)
	withMembers = regexp.MustCompile(`^\{"id": ?"[^"]+", ?"object": ?"chat.completion.chunk", ?"created": ?\d+, ?"model": ?"hermes-agent", ?` +
		`"choices": ?\[\{"index": ?0, ?"delta": ?\{\}, ?"finish_reason": ?null\}\], ?"tool": ?"[a-z_]+", ?.*"status": ?"(running|completed)"\}$`)
)

// The option says in which form tools leave; the request header overrides it.
func TestProgressForms(t *testing.T) {
	all := []recording{
		recorded(t, "g0-v0.8.0/seq_tools"), recorded(t, "g1-v0.9.0/labels"), recorded(t, "g2-v0.13.0/parallel_tools"), recorded(t, "g3-v0.20.3/one_tool"),
	}
	up := newUpstream(t, library(all, byFrame).play)
	fixed := newClient(t, first(serve(t, up, still)))
	for _, form := range forms {
		c := newClient(t, first(serve(t, up, still.with(options{"progress": form}))))
		for _, r := range all {
			t.Run(form+" of "+r.String(), func(t *testing.T) {
				body := c.of(t).play(r.String()).all()
				checkForm(t, form, body, r)
				if other := fixed.of(t).play(r.String(), "X-Hermes-Tool-Progress", form).all(); other != body {
					t.Errorf("by the request header\n%s\nby the option\n%s", other, body)
				}
			})
		}
	}
}

// first is the URL of a sidecar.
func first(base string, _ *sidecar) string { return base }

// checkForm wants every tool event of a body in a form, and as many as the
// recording has.
func checkForm(t *testing.T, form, body string, r recording) {
	t.Helper()
	want := len(decode(t, string(r.body)).starts)
	if strings.HasPrefix(r.generation, "g0") {
		want = strings.Count(string(r.body), "\\n`\\u")
	}
	if strings.HasPrefix(r.generation, "g1") {
		want = strings.Count(string(r.body), "event: hermes.tool.progress")
	}
	runs, ends := 0, 0
	for _, f := range strings.SplitAfter(body, "\n\n") {
		var data string
		switch form {
		case "envelope", "bare":
			data, _ = strings.CutPrefix(f, "event: hermes.tool.progress\ndata: ")
		case "unnamed":
			data, _ = strings.CutPrefix(f, "data: ")
		case "comment":
			data, _ = strings.CutPrefix(f, ": hermes.tool.progress ")
		}
		if data == f || data == "" {
			if strings.Contains(f, "toolCallId") || strings.HasPrefix(f, "event:") {
				t.Errorf("a tool event in another form: %q", clip(f))
			}
			continue
		}
		data = strings.TrimSuffix(data, "\n\n")
		if form == "unnamed" && !strings.Contains(data, "toolCallId") {
			continue
		}
		ok := withMembers.MatchString(data)
		if form == "bare" || form == "comment" {
			ok = fields.MatchString(data) || fieldsEnd.MatchString(data)
		}
		if !ok {
			t.Errorf("form %s: %q", form, clip(f))
		}
		if strings.Contains(data, "completed\"}") {
			ends++
		} else {
			runs++
		}
	}
	if form == "off" {
		want = 0
	}
	if runs != want || ends != want {
		t.Errorf("%d running and %d completed, want %d", runs, ends, want)
	}
}

// In the form bare a modern stream passes byte for byte.
func TestBareLeavesModernStreamsAsTheyAre(t *testing.T) {
	all := recordings(t, func(r recording) bool {
		return chats(r) && !r.legacy() && strings.Contains(r.scenario, "tool") && r.scenario != "crash_in_tool" || r.scenario == "labels" && !r.legacy()
	})
	base, _ := serve(t, newUpstream(t, library(all, byFrame).play), still.with(options{"progress": "bare"}))
	c := newClient(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			if got := c.of(t).play(r.String()).all(); got != string(r.body) {
				t.Errorf("got\n%s\nwant\n%s", got, r.body)
			}
		})
	}
}

// An unknown value of the request header changes nothing.
func TestUnknownProgressHeaderIsIgnored(t *testing.T) {
	all := []recording{recorded(t, "g2-v0.13.0/one_tool")}
	c := newClient(t, first(serve(t, newUpstream(t, library(all, byFrame).play), still)))
	want := c.play(all[0].String()).all()
	if got := c.play(all[0].String(), "X-Hermes-Tool-Progress", "sometimes").all(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// status_line adds what Open WebUI shows.
func TestStatusLine(t *testing.T) {
	all := []recording{recorded(t, "g0-v0.8.0/one_tool"), recorded(t, "g2-v0.13.0/one_tool")}
	c := newClient(t, first(serve(t, newUpstream(t, library(all, byFrame).play), still.with(options{"status_line": true}))))
	for _, r := range all {
		a := c.play(r.String()).answer()
		a.checkGood(t)
		n := 0
		for _, e := range a.events {
			if e.chunk == nil || e.Status == "" {
				continue
			}
			n++
			if e.Event == nil || e.Event.Type != "status" || e.Event.Data.Description != "💻 ls -la" || e.Event.Data.Done != (e.Status == "completed") {
				t.Errorf("%s: no status line in %q", r, e.raw)
			}
		}
		if n != 2 {
			t.Errorf("%s: %d tool events", r, n)
		}
	}
}

// Other named events get the envelope too, in front of their own members.
func TestStatusEventsGetTheEnvelope(t *testing.T) {
	const own = `"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s (attempt 1/3)..."}`
	const ask = `"choices": ["once", "deny"], "command": "rm"}`
	const approval = "event: approval.request\ndata: {" + ask + "\n\n"
	status := recorded(t, "g4-transcribed/status_wait")
	body := string(status.body)
	at := strings.Index(body, "event: hermes.status")
	status.body = []byte(body[:at] + approval + body[at:])
	up := newUpstream(t, replay(status, byFrame))
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			got := newClient(t, first(serve(t, up, still.with(options{"progress": form})))).chat().all()
			if form != "envelope" && form != "unnamed" {
				if got != string(status.body) {
					t.Errorf("got\n%s\nwant\n%s", got, status.body)
				}
				return
			}
			for _, own := range []string{own, strings.Replace(ask, `"choices"`, `"hermes_choices"`, 1)} {
				re := regexp.MustCompile(`data: \{"id": ?"chatcmpl-[^"]+", ?"object": ?"chat.completion.chunk", ?"created": ?1795165921, ?"model": ?"hermes-agent", ?` +
					`"choices": ?\[\{"index": ?0, ?"delta": ?\{\}, ?"finish_reason": ?null\}\], ?` + regexp.QuoteMeta(own) + "\n\n")
				if !re.MatchString(got) || strings.Count(got, own) != 1 {
					t.Errorf("no envelope in front of the event's own members:\n%s", got)
				}
			}
		})
	}
}
