package proxy

import (
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// observe tells of b, which upstream has sent, and the engine has read now.
func (s *stream) observe(now time.Time, b []byte) {
	s.beginToObserve()
	if s.raw != nil {
		s.observeRaw(b)
	}
	if s.x.observer != nil {
		s.x.observer.Read(now, s.engine.Chunks(), s.engine)
	}
}

// beginToObserve begins to tell of the stream, as soon as its end is seen to.
func (s *stream) beginToObserve() {
	x := s.x
	if x.observer != nil || x.p.o.Observer == nil || !s.engine.Guarded() {
		return
	}
	kind := KindOther
	if s.engine.Active() {
		kind = KindChat
	}
	x.observer = x.p.o.Observer.Begin(x.client.r, Begun{
		Since: x.since, Kind: kind, Upstream: s.upstream, Status: int(x.client.status), Header: x.client.w.Header(), Raw: s.raw != nil,
	})
}

// raw is what an AnswerObserver that is still to come will be given of a stream.
type raw struct{ early []byte }

// maxEarly is how many bytes are kept of a stream that is not told of yet.
const maxEarly = 64 << 10

// observeRaw tells of b, and of what came before the stream was told of.
func (s *stream) observeRaw(b []byte) {
	if s.x.observer == nil {
		if s.raw.early = append(s.raw.early, b...); len(s.raw.early) > maxEarly {
			s.raw = nil
		}
		return
	}
	if s.raw.early != nil {
		b, s.raw.early = append(s.raw.early, b...), nil
	}
	s.x.observer.Raw(b)
}

// onTool returns what tells of tools, nil when there is nobody to tell.
func (s *stream) onTool() func(rewrite.ToolEvent) {
	if s.x.p.o.Observer == nil {
		return nil
	}
	return func(e rewrite.ToolEvent) {
		s.beginToObserve() // a tool may come in the read with which the stream becomes ours
		if s.x.observer != nil {
			s.x.observer.Tool(s.x.since.Add(s.x.times.Heard()), e)
		}
	}
}
