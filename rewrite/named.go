package rewrite

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
	if name := string(s.f.event); name == statusEvent || name == approvalEvent {
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
	if !c.extra && !c.id.ok() && !c.object.ok() && !c.created.ok() && !c.model.ok() && !c.choices.ok() {
		return // as in almost all tool events
	}
	n := 0
	s.eachRenamed(func(int) { n++ })
	if n <= maxIdleItems {
		s.eachRenamed(func(at int) { s.edit(at, at, renamedPrefix) })
		return
	}
	data, from, at := s.f.data, -1, 0
	renamed := make([]byte, 0, len(data)+n*len(renamedPrefix))
	s.eachRenamed(func(name int) {
		if from < 0 {
			from, at = name, name
		}
		renamed = append(append(renamed, data[at:name]...), renamedPrefix...)
		at = name
	})
	s.edit(from, at, oneLine(renamed))
	s.rewriteFrame()
}

// eachRenamed calls each with where the names begin that renameOwn renames.
func (s *Stream) eachRenamed(each func(at int)) {
	data := s.f.data
	for name, value := range membersOf(data, span{s.c.open, s.c.shut + 1}) {
		raw := name.of(data)
		if standsTwice(raw) || spells(raw, "event") && value.isString(data) {
			each(name.from)
		}
	}
}

// standsTwice reports whether the name is that of a member of every chunk.
func standsTwice(name []byte) bool {
	for _, of := range [...]string{"id", "object", "created", "model", "choices"} {
		if spells(name, of) {
			return true
		}
	}
	return false
}

// addStatus adds the member that Open WebUI shows to what tells of upstream's state. A
// notice is done when it comes; an approval when its tool is.
func (s *Stream) addStatus() {
	if !s.o.StatusLine || s.c.statusLine.ok() && !s.c.statusLine.isString(s.f.data) {
		return
	}
	says, before := "", ""
	switch string(s.f.event) {
	case statusEvent:
		says = "text"
	case approvalEvent:
		says, before = "command", "Approval needed: "
	default:
		return
	}
	data := s.f.data
	text := stringOf(data, memberOf(data, span{s.c.open, s.c.shut + 1}, says))
	if text == nil {
		return
	}
	room := append(append(s.room, statusLineHead...), before...)
	room = append(room, inside(redact(text))...)
	s.edit(s.c.shut, s.c.shut, s.added(appendStatusLineTail(room, says == "text")))
}

// isWrapped reports whether the frame s.f is a named event that has got the members
// of a chunk: it is no chunk, whatever else is in it.
func (s *Stream) isWrapped() bool {
	c, data := &s.c, s.f.data
	return isNamed(&s.f) && c.isChunk(data) && c.count == 1 && c.index && !c.finish.ok() &&
		c.delta.isObject(data) && firstByte(data[c.delta.from+1:]) == '}'
}

// wrappedFrame handles a named event that another sidecar has wrapped.
func (s *Stream) wrappedFrame() {
	s.settle()
	s.updateEnvelope() // it may come before any chunk
	if string(s.f.event) == "error" && s.c.err.set(s.f.data) {
		s.errorFrame() // upstream's, all the same
		return
	}
	s.redactFrame()
	s.writeEdited()
}
