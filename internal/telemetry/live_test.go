package telemetry

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// begun begins a stream of h at the time.
func begun(h *Observer, path string, at time.Time) *stream {
	b := proxy.Begun{Since: at, Kind: proxy.KindChat}
	return h.Begin(httptest.NewRequest("POST", path, nil), b).(*stream)
}

func TestOpenStreamsAreListedOldestFirst(t *testing.T) {
	h := newObserver()
	now := time.Now()
	for _, ago := range []int{2, 3, 1} {
		begun(h, fmt.Sprint("/", ago), now.Add(-time.Duration(ago)*time.Minute))
	}
	open, ended := h.Process.List(now)
	if len(open) != 3 || open[0].Path != "/3" || open[1].Path != "/2" || open[2].Path != "/1" {
		t.Errorf("open: %+v", open)
	}
	if open[0].Age != 180 || open[0].Since.Location() != time.UTC || open[0].Tools == nil || ended == nil {
		t.Errorf("open: %+v, ended: %+v", open[0], ended)
	}
}

// TestSilenceIsOfBytes, not of chunks: a comment ends it.
func TestSilenceIsOfBytes(t *testing.T) {
	h := newObserver()
	now := time.Now()
	s := begun(h, "/", now)
	s.Read(now.Add(time.Second), 1, sum{})
	s.Tool(now.Add(2*time.Second), rewrite.ToolEvent{ID: "call_1", Name: "terminal"})
	s.Read(now.Add(5*time.Second), 1, sum{})
	open, _ := h.Process.List(now.Add(15 * time.Second))
	o := open[0]
	if o.Silence != 10 || o.Age != 15 || o.Chunks != 1 || o.ID != "chatcmpl-1" || o.Model != "hermes-agent" {
		t.Errorf("%+v", o)
	}
	if len(o.Tools) != 1 || o.Tools[0].ID != "call_1" || o.Tools[0].Name != "terminal" || o.Tools[0].Seconds != 13 {
		t.Errorf("tools %+v", o.Tools)
	}
}

func TestTheLastHundredAreKept(t *testing.T) {
	p := NewProcess(new(queue.Lines), desk.New())
	now := time.Now()
	for i := range 3 * endedStreams / 2 {
		p.record(&EndedStream{ID: fmt.Sprint(i)})
	}
	_, ended := p.List(now)
	if len(ended) != endedStreams || ended[0].ID != "149" || ended[99].ID != "50" {
		t.Errorf("%d, from %+v to %+v", len(ended), ended[0], ended[len(ended)-1])
	}
}

// TestListIsBounded whatever upstream and client call things.
func TestListIsBounded(t *testing.T) {
	h := newObserver()
	long := strings.Repeat("é", 10*256)
	now := time.Now()
	s := begun(h, "/"+strings.Repeat("a", 10*256), now)
	s.Read(now, 1, named(long))
	s.Tool(now, rewrite.ToolEvent{ID: long, Name: long})
	h.Process.record(newEnded("/"+long, &proxy.Result{Summary: rewrite.Summary{ID: long, Model: long, FinishReason: long}}, now))
	open, ended := h.Process.List(now)
	for _, text := range []string{
		open[0].ID, open[0].Model, open[0].Path, open[0].Tools[0].ID, open[0].Tools[0].Name,
		ended[0].ID, ended[0].Model, ended[0].Path, ended[0].FinishReason,
	} {
		if len(text) == 0 || len(text) > 256 {
			t.Errorf("%d bytes", len(text))
		}
	}
}

// named is a Summarizer with a name.
type named string

func (n named) Summary() rewrite.Summary { return rewrite.Summary{ID: string(n), Model: string(n)} }

// TestIDIsNotLookedForForEver in a stream without one, and is found in a first read with many
// chunks.
func TestIDIsNotLookedForForEver(t *testing.T) {
	s := begun(newObserver(), "/", time.Now())
	asked := new(askings)
	for i := range 1000 {
		s.Read(time.Now(), i+1, asked)
	}
	if *asked != looksForID {
		t.Errorf("asked %d times, want %d", *asked, looksForID)
	}
	s = begun(newObserver(), "/", time.Now())
	s.Read(time.Now(), 40, named("chatcmpl-1\xff"))
	if o := s.show(time.Now()); o.ID != "chatcmpl-1" {
		t.Errorf("%+v", o)
	}
}

// askings is a Summarizer that counts.
type askings int

func (a *askings) Summary() rewrite.Summary { *a++; return rewrite.Summary{} }

// TestStreamsAreListedWhileTheyRun, by -race.
func TestStreamsAreListedWhileTheyRun(t *testing.T) {
	h := newObserver()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				now := time.Now()
				s := begun(h, "/", now)
				s.Read(now, 1, sum{})
				s.Tool(now, rewrite.ToolEvent{ID: "a"})
				s.Tool(now, rewrite.ToolEvent{ID: "a", Completed: true})
				s.End(httptest.NewRequest("POST", "/", nil), proxy.Result{Outcome: "ok"})
			}
		})
		all.Go(func() {
			for range 50 {
				h.Process.List(time.Now())
			}
		})
	}
	all.Wait()
	if open, ended := h.Process.List(time.Now()); len(open) != 0 || len(ended) != endedStreams {
		t.Errorf("%d open, %d ended", len(open), len(ended))
	}
}
