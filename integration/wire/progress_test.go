package wire

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
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
	all := []hermes.Recording{
		hermes.Recorded(t, "g0-v0.8.0/seq_tools"), hermes.Recorded(t, "g1-v0.9.0/labels"), hermes.Recorded(t, "g2-v0.13.0/parallel_tools"), hermes.Recorded(t, "g3-v0.20.3/one_tool"),
	}
	up := upstream.New(t, upstream.Library(all, upstream.ByFrame).Play)
	fixed := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still)))
	for _, form := range forms {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"progress": form}))))
		for _, r := range all {
			t.Run(form+" of "+r.String(), func(t *testing.T) {
				body := c.Of(t).Play(r.String()).All()
				checkForm(t, form, body, r)
				if other := fixed.Of(t).Play(r.String(), "X-Hermes-Tool-Progress", form).All(); other != body {
					t.Errorf("by the request header\n%s\nby the option\n%s", other, body)
				}
			})
		}
	}
}

// checkForm wants every tool event of a body in a form, and as many as the
// recording has.
func checkForm(t *testing.T, form, body string, r hermes.Recording) {
	t.Helper()
	want := len(strict.Decode(t, string(r.Body)).Starts)
	if strings.HasPrefix(r.Generation, "g0") {
		want = strings.Count(string(r.Body), "\\n`\\u")
	}
	if strings.HasPrefix(r.Generation, "g1") {
		want = strings.Count(string(r.Body), "event: hermes.tool.progress")
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
				t.Errorf("a tool event in another form: %q", harness.Clip(f))
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
			t.Errorf("form %s: %q", form, harness.Clip(f))
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
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && !r.Legacy() && strings.Contains(r.Scenario, "tool") && r.Scenario != "crash_in_tool" || r.Scenario == "labels" && !r.Legacy()
	})
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"progress": "bare"}))
	c := client.New(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			if got := c.Of(t).Play(r.String()).All(); got != string(r.Body) {
				t.Errorf("got\n%s\nwant\n%s", got, r.Body)
			}
		})
	}
}

// An unknown value of the request header changes nothing.
func TestUnknownProgressHeaderIsIgnored(t *testing.T) {
	all := []hermes.Recording{hermes.Recorded(t, "g2-v0.13.0/one_tool")}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still)))
	want := c.Play(all[0].String()).All()
	if got := c.Play(all[0].String(), "X-Hermes-Tool-Progress", "sometimes").All(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// status_line adds what Open WebUI shows.
func TestStatusLine(t *testing.T) {
	all := []hermes.Recording{hermes.Recorded(t, "g0-v0.8.0/one_tool"), hermes.Recorded(t, "g2-v0.13.0/one_tool")}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"status_line": true}))))
	for _, r := range all {
		a := c.Play(r.String()).Answer()
		a.CheckGood(t)
		n := 0
		for _, e := range a.Events {
			if e.Chunk == nil || e.Status == "" {
				continue
			}
			n++
			if e.Event == nil || e.Event.Type != "status" || e.Event.Data.Description != "💻 ls -la" || e.Event.Data.Done != (e.Status == "completed") {
				t.Errorf("%s: no status line in %q", r, e.Raw)
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
	status := hermes.Recorded(t, "g4-transcribed/status_wait")
	body := string(status.Body)
	at := strings.Index(body, "event: hermes.status")
	status.Body = []byte(body[:at] + approval + body[at:])
	up := upstream.New(t, upstream.Replay(status, upstream.ByFrame))
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			got := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"progress": form})))).Chat().All()
			if form != "envelope" && form != "unnamed" {
				if got != string(status.Body) {
					t.Errorf("got\n%s\nwant\n%s", got, status.Body)
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
