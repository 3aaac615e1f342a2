package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// The named events of a chat stream that are no tool events: without the members of
// a chunk strict clients break on them (contract section 2).

// The events with which the newest Hermes tells of its state.
const (
	statusEvent   = "hermes.status"
	approvalEvent = "approval.request"
)

// renamedPrefix is what the names of members get that would stand there twice.
var renamedPrefix = []byte("hermes_")

// namedFrame handles the frame s.f, a named event with the object s.c that is no
// chunk.
func (s *Stream) namedFrame() {
	s.settle()
	if name := string(s.f.Event); name == statusEvent || name == approvalEvent {
		s.reportsFailures(true)
	}
	if s.envelops() {
		s.renameOwn()
	}
	s.redactFrame()
	if s.envelops() {
		s.addFront()
		s.addStatus()
	}
	s.writeEdited()
}

// renameOwn renames the members of the frame that the members of a chunk, and Open
// WebUI's status, would stand beside: clients that loop over choices break on those
// of approval.request, and Open WebUI on an event that is a string. It comes before
// all edits: of very many names it makes a new frame.
func (s *Stream) renameOwn() {
	c := &s.c
	if !c.extra && !c.id.Ok() && !c.object.Ok() && !c.created.Ok() && !c.model.Ok() && !c.choices.Ok() {
		return // as in almost all tool events
	}
	n := 0
	s.eachRenamed(func(int) { n++ })
	if n <= maxIdleItems {
		s.eachRenamed(func(at int) { s.edits.Replace(&s.f, at, at, renamedPrefix) })
		return
	}
	data, from, at := s.f.Data, -1, 0
	renamed := make([]byte, 0, len(data)+n*len(renamedPrefix))
	s.eachRenamed(func(name int) {
		if from < 0 {
			from, at = name, name
		}
		renamed = append(append(renamed, data[at:name]...), renamedPrefix...)
		at = name
	})
	s.edits.Replace(&s.f, from, at, jsonspan.OneLine(renamed))
	s.rewriteFrame()
}

// eachRenamed calls each with where the names begin that renameOwn renames.
func (s *Stream) eachRenamed(each func(at int)) {
	data := s.f.Data
	for name, value := range jsonspan.Members(data, jsonspan.Span{From: s.c.open, To: s.c.shut + 1}) {
		raw := name.Of(data)
		if standsTwice(raw) || jsonspan.Spells(raw, "event") && value.IsString(data) {
			each(name.From)
		}
	}
}

// standsTwice reports whether the name is that of a member of every chunk.
func standsTwice(name []byte) bool {
	for _, of := range [...]string{"id", "object", "created", "model", "choices"} {
		if jsonspan.Spells(name, of) {
			return true
		}
	}
	return false
}

// addStatus adds the member that Open WebUI shows to what tells of upstream's state. A
// notice is done when it comes; an approval when its tool is.
func (s *Stream) addStatus() {
	if !s.o.StatusLine || s.c.statusLine.Ok() && !s.c.statusLine.IsString(s.f.Data) {
		return
	}
	says, before := "", ""
	switch string(s.f.Event) {
	case statusEvent:
		says = "text"
	case approvalEvent:
		says, before = "command", "Approval needed: "
	default:
		return
	}
	data := s.f.Data
	text := jsonspan.StringAt(data, jsonspan.MemberOf(data, jsonspan.Span{From: s.c.open, To: s.c.shut + 1}, says))
	if text == nil {
		return
	}
	room := append(append(s.room, statusLineHead...), before...)
	room = append(room, jsonspan.Inside(redact.Value(text))...)
	s.edits.Replace(&s.f, s.c.shut, s.c.shut, s.added(appendStatusLineTail(room, says == "text")))
}

// isWrapped reports whether the frame s.f is a named event that has got the members
// of a chunk: it is no chunk, whatever else is in it.
func (s *Stream) isWrapped() bool {
	c, data := &s.c, s.f.Data
	return isNamed(&s.f) && c.isChunk(data) && c.count == 1 && c.index && !c.finish.Ok() &&
		c.delta.IsObject(data) && firstByte(data[c.delta.From+1:]) == '}'
}

// wrappedFrame handles a named event that another sidecar has wrapped.
func (s *Stream) wrappedFrame() {
	s.settle()
	s.updateEnvelope() // it may come before any chunk
	if string(s.f.Event) == "error" && s.c.err.IsSet(s.f.Data) {
		s.errorFrame() // upstream's, all the same
		return
	}
	s.redactFrame()
	s.writeEdited()
}
