package rewrite

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"

// reasons are the sources in words.
var reasons = map[ToolSource]string{
	SourceUpstream:  "upstream says so",
	SourceMarker:    "its marker is here",
	SourceImitation: "a marker that is trusted is here",
	SourceInferred:  "what comes now proves it",
	SourceEnd:       "the stream ends",
}

func doing(completed bool) string {
	if completed {
		return "has ended"
	}
	return "starts"
}

// Chunks returns how many chunks have come or, in a stream of another kind, how
// many events.
func (s *Stream) Chunks() int {
	if s.active {
		return s.sum.Chunks
	}
	return s.sum.Frames
}

// tell tells of the tool t.
func (s *Stream) tell(t *tool, completed bool, source ToolSource) {
	if s.explains() {
		s.notef(contract.SectionTools, "tool %s %s: %s", plain(t.name), doing(completed), reasons[source])
	}
	if s.p.onTool == nil {
		return
	}
	s.p.onTool(ToolEvent{ID: plain(t.id), Name: plain(t.name), Completed: completed, Source: source})
}
