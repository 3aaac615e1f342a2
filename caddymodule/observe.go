package caddymodule

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// observedStream is an open stream, as metrics, traces and the admin API see it.
type observedStream struct {
	// What a chunk needs comes first, and lies together.
	mu       sync.Mutex // show reads what follows, but for since
	chunks   int
	since    time.Time
	lastRead time.Duration // after since
	last     time.Duration // likewise, the last chunk
	id       string
	pace     pace
	looks    uint8 // how many times the id has been looked for
	model    string
	upstream string
	tools    []openTool

	h    *Handler
	span *streamSpan // nil when the request is not traced
	op   operation
	path string
}

// openTool is a tool that is open.
type openTool struct {
	id, name string
	started  time.Time
}

// openStream is an open stream as the admin API shows it.
type openStream struct {
	ID       string    `json:"id,omitempty"`
	Model    string    `json:"model,omitempty"`
	Upstream string    `json:"upstream,omitempty"`
	Path     string    `json:"path"`
	Since    time.Time `json:"since"`
	// Age and Silence are in seconds. Silence is the time since upstream's last
	// byte or, before the first one, its header.
	Age     float64 `json:"age_seconds"`
	Silence float64 `json:"silence_seconds"`
	// Chunks counts chunks or, in a stream of another kind, events.
	Chunks int            `json:"chunks"`
	Tools  []openToolShow `json:"open_tools"`
}

// openToolShow is an open tool as the admin API shows it.
type openToolShow struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Begin implements proxy.Observer.
func (h *Handler) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	if b.Kind == proxy.KindWhole {
		return wholeAnswer{h}
	}
	op, since := operationOf(b.Kind), b.Since
	s := &observedStream{
		h: h, span: startSpan(r, op, since), op: op,
		since: since, path: logged(r.URL.Path), upstream: upstream(r), lastRead: time.Since(since),
	}
	h.shared.metrics.active.Inc()
	h.shared.live.begin(s)
	return s
}

// Raw implements proxy.AnswerObserver.
func (s *observedStream) Raw([]byte) {}

// Read implements proxy.AnswerObserver.
func (s *observedStream) Read(now time.Time, chunks int, sum proxy.Summarizer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Sub(s.since)
	s.lastRead = at
	if chunks <= s.chunks {
		return
	}
	if s.chunks == 0 {
		s.firstCame(at, chunks-1)
	} else {
		s.pace.chunks(chunks-s.chunks, at-s.last)
	}
	s.chunks, s.last = chunks, at
	if s.id == "" && s.looks < looksForID {
		s.looks++
		said := sum.Summary()
		s.id, s.model = logged(said.ID), logged(said.Model)
	}
}

// firstCame notes that the first chunk has come, and with it more.
func (s *observedStream) firstCame(at time.Duration, more int) {
	s.span.firstChunk(at)
	s.h.shared.metrics.firstCame(s.op, at)
	if more > 0 {
		s.pace.chunks(more, 0)
	}
}

// tellPace tells the histogram of the times between chunks.
func (s *observedStream) tellPace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.shared.metrics.outputChunk.add(s.op, &s.pace)
}

// looksForID is how many times an id is looked for.
const looksForID = 16

// Tool implements proxy.AnswerObserver.
func (s *observedStream) Tool(now time.Time, e rewrite.ToolEvent) {
	s.h.shared.metrics.toolTold(e)
	s.span.tool(now, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.Completed {
		s.tools = append(s.tools, openTool{e.ID, logged(e.Name), now})
		return
	}
	i := slices.IndexFunc(s.tools, func(t openTool) bool { return t.id == e.ID })
	if i < 0 {
		return
	}
	s.h.shared.metrics.toolTook(now.Sub(s.tools[i].started))
	s.tools = slices.Delete(s.tools, i, i+1)
}

// End implements proxy.AnswerObserver.
func (s *observedStream) End(r *http.Request, res proxy.Result) {
	s.end(res)
	s.h.onEnd(r, res)
}

// end ends what is shown of the stream while it is open.
func (s *observedStream) end(res proxy.Result) {
	s.h.shared.live.end(s)
	s.tellPace()
	s.h.shared.metrics.active.Dec()
	s.h.shared.metrics.took(s.op, res)
	s.span.end(res)
}

// wholeAnswer is an answer that is not streamed: only its end is told.
type wholeAnswer struct{ h *Handler }

// Raw implements proxy.AnswerObserver.
func (wholeAnswer) Raw([]byte) {}

// Read implements proxy.AnswerObserver.
func (wholeAnswer) Read(time.Time, int, proxy.Summarizer) {}

// Tool implements proxy.AnswerObserver.
func (wholeAnswer) Tool(time.Time, rewrite.ToolEvent) {}

// End implements proxy.AnswerObserver.
func (a wholeAnswer) End(r *http.Request, res proxy.Result) { a.h.onEnd(r, res) }

// show returns what can be seen of the stream now.
func (s *observedStream) show(now time.Time) openStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := openStream{
		ID: s.id, Model: s.model, Upstream: s.upstream, Path: s.path, Since: s.since.UTC(),
		Age: now.Sub(s.since).Seconds(), Silence: (now.Sub(s.since) - s.lastRead).Seconds(),
		Chunks: s.chunks, Tools: make([]openToolShow, 0, len(s.tools)),
	}
	for _, t := range s.tools {
		o.Tools = append(o.Tools, openToolShow{logged(t.id), t.name, now.Sub(t.started).Seconds()})
	}
	return o
}

// sortByAge sorts streams, the oldest first.
func sortByAge(streams []openStream) {
	slices.SortFunc(streams, func(a, b openStream) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
}

// Interface guards
var (
	_ proxy.Observer       = (*Handler)(nil)
	_ proxy.AnswerObserver = (*observedStream)(nil)
)
