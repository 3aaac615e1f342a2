package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// An agentStream is one of the streams that are no chats, with a tool that runs.
type agentStream struct {
	name string
	file string                                              // of a recording
	open func(h *hermesLab, t *testing.T, base string) *wire // nil if there is none
	ends []string                                            // the events that the sidecar adds
}

var agentStreams = []agentStream{
	{
		name: "`/v1/responses`",
		file: "responses",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			return h.post(t, base+"/v1/responses", `{"model": "hermes-agent", "stream": true, "input": "`+h.question(killedInTool)+`"}`)
		},
		ends: []string{"response.output_item.done", "response.output_item.added", "response.output_item.done", "response.failed"},
	}, {
		name: "`/v1/runs/{id}/events`",
		file: "runs",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			id, ok := h.run(t, base, h.question(killedInTool))
			if !ok {
				return nil
			}
			return h.get(t, base+"/v1/runs/"+id+"/events")
		},
		ends: []string{"tool.completed", "run.failed"},
	}, {
		name: "`/api/sessions/{id}/chat/stream`",
		file: "session",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			var made struct{ Session struct{ ID string } }
			if w := h.post(t, base+"/api/sessions", "{}"); !w.json(&made) || made.Session.ID == "" {
				return nil
			}
			return h.post(t, base+"/api/sessions/"+made.Session.ID+"/chat/stream", `{"message": "`+h.question(killedInTool)+`"}`)
		},
		ends: []string{"tool.completed", "error", "done"},
	},
}

// killInText kills the gateway while the model speaks.
func (h *hermesLab) killInText(t *testing.T) {
	k := h.ask(t, killedInText)
	h.model.awaitHeld(t, 4)
	k.bare.wire.until("Half a ")
	k.mended.wire.until("Half a ")
	h.kill()
	k.judge(t)
}

// killInTool kills it while a command runs.
func (h *hermesLab) killInTool(t *testing.T) {
	k := h.ask(t, killedInTool)
	h.awaitTools(t, 4)
	k.bare.wire.until("running")
	k.mended.wire.until("running")
	h.kill()
	_, mended := k.judge(t)
	if n := strings.Count(mended.raw, `"interrupted":true`); n != 1 {
		t.Errorf("%d tools were interrupted, want 1: %s", n, mended.raw)
	}
}

// killStream kills it while a command runs that another stream tells of.
func (h *hermesLab) killStream(t *testing.T, s agentStream) {
	bare, mended := s.open(h, t, h.bare), s.open(h, t, h.mended)
	if bare == nil || mended == nil {
		h.cannot(t, s.name)
		return
	}
	h.awaitTools(t, 2)
	bare.until("terminal")
	mended.until("terminal")
	h.kill()
	before, after := bare.rest(), mended.rest()
	record(t, s.file+" killed in a tool", before)
	for _, end := range s.ends {
		if hasEvent(before, end) || !hasEvent(after, end) {
			t.Errorf("%s: in %s\nand in %s", end, before, after)
		}
	}
	if bare.err == nil || mended.err != nil {
		t.Errorf("Hermes' stream ends with %v, the sidecar's with %v", bare.err, mended.err)
	}
	h.line(s.name+", killed in a tool", "breaks off", "ends with "+strings.Join(s.ends, ", "))
}

// kill kills the gateway, and starts it again.
func (h *hermesLab) kill() {
	h.Kill()
	os.RemoveAll(filepath.Join(h.work, "begun"))
	h.start(h.t)
}

// hasEvent reports whether a stream has an event, named in a field of its own or in the data.
func hasEvent(stream, name string) bool {
	return strings.Contains(stream, "event: "+name+"\n") || strings.Contains(stream, `"event":"`+name+`"`) || strings.Contains(stream, `"event": "`+name+`"`)
}

// awaitTools returns when n commands have begun.
func (h *hermesLab) awaitTools(t *testing.T, n int) {
	t.Helper()
	begun := 0
	for deadline := time.Now().Add(harness.Patience); begun < n; time.Sleep(50 * time.Millisecond) {
		entries, _ := os.ReadDir(filepath.Join(h.work, "begun"))
		if begun = len(entries); begun < n && time.Now().After(deadline) {
			t.Fatalf("%d of %d tools have begun", begun, n)
		}
	}
}
