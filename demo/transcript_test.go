package demo

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// transcribe reads a stream; each frame arrives 100 ms after the one before.
func transcribe(stream string) *transcript {
	t := new(transcript)
	now := time.Unix(1_800_000_000, 0)
	t.end(readFrames(strings.NewReader(stream), func(raw []byte, whole bool) {
		now = now.Add(100 * time.Millisecond)
		t.add(raw, whole, now)
	}))
	return t
}

func TestTranscriptNotesWhatNoStreamMayContain(t *testing.T) {
	const event = "event: hermes.tool.progress\ndata: "
	for stream, want := range map[string]string{
		"data: {\n\n": "not a JSON",
		event + "{\"toolCallId\":\"a\",\"status\":\"completed\"}\n\n": "without having started",
		event + "{\"toolCallId\":\"a\",\"status\":\"odd\"}\n\n":       "unknown status",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n":     "", // torn: a client drops it
	} {
		got := transcribe(stream)
		if faults := strings.Join(got.faults, "\n"); !strings.Contains(faults, want) || (faults == "") != (want == "") || got.text(said) != "" {
			t.Errorf("%q: faults %q, text %q, want one with %q", stream, faults, got.text(said), want)
		}
	}
}

// endless is a line without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

func TestFramesAreBounded(t *testing.T) {
	err := readFrames(io.LimitReader(endless{}, maxFrame+10), func([]byte, bool) { t.Error("a frame, want an error") })
	if err == nil {
		t.Error("no error that names the limit")
	}
}

// A client gets each frame of a stream, the error of a connection that broke, and what a server
// says that refuses.
func TestAsk(t *testing.T) {
	refusal := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, body)
		})
	}
	one, parallel := recording(t, "g0-v0.8.0", "one_tool"), recording(t, "g0-v0.8.0", "parallel_tools")
	for _, c := range []struct {
		server http.Handler
		model  string
		stream string // how it begins
		torn   bool
		err    string
	}{
		{new(backend), "parallel_tools", parallel, false, ""},
		{new(backend), "kill", one[:len(one)/2], true, "unexpected EOF"},
		{refusal(`{"error": {"message": "no backend", "code": "upstream_aborted"}}`), "plain", "", false, "http status 502: no backend"},
		{refusal(`<html>`), "plain", "", false, "http status 502"},
	} {
		got, torn := "", false
		err := ask(t.Context(), serve(t, c.server), c.model, func(raw []byte, whole bool) { got, torn = got+string(raw), !whole })
		if !strings.HasPrefix(got, c.stream) || torn != c.torn || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%+v: %q, torn %v, %v", c, got, torn, err)
		}
	}
}
