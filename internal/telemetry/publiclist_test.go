package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// publicList is what PublicList returns, decoded.
type publicList struct {
	Open    []OpenStream
	Ended   []EndedStream
	Omitted int

	Waiting        []WaitingRequest
	OmittedWaiting int `json:"omitted_waiting"`
}

func listPublic(t *testing.T, p *Process, now time.Time) (l publicList, size int) {
	t.Helper()
	b, err := p.PublicList(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if l.Open == nil || l.Ended == nil || l.Waiting == nil {
		t.Errorf("a list is null in %s", b)
	}
	return l, len(b)
}

// TestPublicListNamesNothingThatHermesTakes: no id of a response, a run or a session, and
// no segment of a path that may be one, or a key.
func TestPublicListNamesNothingThatHermesTakes(t *testing.T) {
	h := newObserver()
	now := time.Now()
	for i, c := range []struct{ id, path, wantID, wantPath string }{
		{"chatcmpl-1", "/v1/chat/completions", "chatcmpl-1", "/v1/chat/completions"},
		{"resp_7f3a", "/v1/responses", "", "/v1/responses"},
		{"run_7f3a", "/v1/runs/run_7f3a/events", "", "/v1/runs/*/events"},
		{"run_7f3a", "/api/sessions/session-7f3a/chat/stream", "", "/api/sessions/*/chat/stream"},
		{"chatcmpl-2", "/token-7f3a/v1/chat/completions", "chatcmpl-2", "/*/v1/chat/completions"},
		{"", "/v1/chat/completions/", "", "/v1/chat/completions/"},
	} {
		s := begun(h, c.path, now.Add(time.Duration(i)))
		s.Read(now, 1, named(c.id))
		l, _ := listPublic(t, h.Process, now)
		if o := l.Open[i]; o.ID != c.wantID || o.Path != c.wantPath {
			t.Errorf("open: %q %q is shown as %q %q", c.id, c.path, o.ID, o.Path)
		}
		h.Process.record(&EndedStream{ID: c.id, Path: c.path})
		l, _ = listPublic(t, h.Process, now)
		if e := l.Ended[0]; e.ID != c.wantID || e.Path != c.wantPath {
			t.Errorf("ended: %q %q is shown as %q %q", c.id, c.path, e.ID, e.Path)
		}
	}
	if open, ended := h.Process.List(now); open[2].Path != "/v1/runs/run_7f3a/events" || ended[3].Path != "/v1/runs/run_7f3a/events" {
		t.Errorf("the list of the admin API has changed: %+v, %+v", open[2], ended[3])
	}
}

// TestPublicListIsBounded to 1 MiB of open streams, the oldest; the number of the others
// is told.
func TestPublicListIsBounded(t *testing.T) {
	h := newObserver()
	now := time.Now()
	if l, _ := listPublic(t, h.Process, now); len(l.Open)+len(l.Ended)+l.Omitted != 0 {
		t.Errorf("nothing has been seen: %+v", l)
	}
	const streams, tools = 40, 100
	for i := range streams {
		s := begun(h, "/v1/chat/completions", now.Add(time.Duration(i)*time.Second))
		for j := range tools {
			s.Tool(now, rewrite.ToolEvent{ID: fmt.Sprint(j, strings.Repeat("i", 256)), Name: strings.Repeat("n", 256)})
		}
	}
	l, size := listPublic(t, h.Process, now.Add(time.Hour))
	if len(l.Open) == 0 || l.Omitted == 0 || len(l.Open)+l.Omitted != streams {
		t.Errorf("%d streams are listed, %d omitted, of %d", len(l.Open), l.Omitted, streams)
	}
	if size < maxPublicList/2 || size > maxPublicList+1<<10 {
		t.Errorf("%d bytes", size)
	}
	for i, o := range l.Open {
		if !o.Since.Equal(now.Add(time.Duration(i) * time.Second)) {
			t.Errorf("stream %d is not the oldest one left", i)
		}
	}
}
