package rewrite

// The named events of a chat stream that are no tool events: without the members of
// a chunk strict clients break on them (contract section 2).

// The events with which the newest Hermes tells of its state.
const (
	statusEvent   = "hermes.status"
	approvalEvent = "approval.request"
)

// renamedPrefix is what the names of members get that would stand there twice.
const renamedPrefix = "hermes_"

// namedFrame handles the frame s.f, a named event with the object s.c that is no
// chunk.
func (s *Stream) namedFrame() {
	s.settle()
	if name := string(s.f.event); name == statusEvent || name == approvalEvent {
		s.reportsFailures(true)
	}
	s.redactFrame()
	if s.envelops() {
		s.renameOwn()
		s.addFront()
		s.addStatus()
	}
	s.writeEdited()
}

// renameOwn renames the members of the frame that the members of a chunk, and Open
// WebUI's status, would stand beside: clients that loop over choices break on those
// of approval.request, and Open WebUI on an event that is a string.
func (s *Stream) renameOwn() {
	data := s.f.data
	for r := (reader{b: data, i: s.c.open}); ; {
		if r.depth == 0 {
			r.open()
		}
		name, ok := r.member()
		if !ok {
			return
		}
		value := r.value()
		switch unquote(data[name.from-1 : name.to+1]) {
		case "id", "object", "created", "model", "choices":
		case "event":
			if !value.isString(data) {
				continue
			}
		default:
			continue
		}
		s.edit(name.from, name.from, []byte(renamedPrefix))
	}
}

// addStatus adds the member that Open WebUI shows to what tells of upstream's state. A
// notice is done when it comes; an approval when its tool is.
func (s *Stream) addStatus() {
	if !s.o.StatusLine || s.c.statusLine.ok() && !s.c.statusLine.isString(s.f.data) {
		return
	}
	from, says, before := len(s.room), "", ""
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
	s.room = append(append(s.room, statusLineHead...), before...)
	s.room = append(s.room, inside(redact(text))...)
	s.room = appendStatusLineTail(s.room, says == "text")
	s.edit(s.c.shut, s.c.shut, s.room[from:])
}

// isWrapped reports whether the frame s.f is a named event that has got the members
// of a chunk: it is no chunk, whatever else is in it.
func (s *Stream) isWrapped() bool {
	c, data := &s.c, s.f.data
	return isNamed(&s.f) && c.isChunk(data) && c.count == 1 && c.index && !c.finish.ok() &&
		c.delta.isObject(data) && firstByte(data[c.delta.from+1:]) == '}' &&
		!(string(s.f.event) == "error" && c.err.set(data))
}

// wrappedFrame handles a named event that another sidecar has wrapped.
func (s *Stream) wrappedFrame() {
	s.settle()
	s.updateEnvelope() // it may come before any chunk
	s.redactFrame()
	s.writeEdited()
}
