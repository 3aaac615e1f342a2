package rewrite

import (
	"bytes"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

const (
	progressEvent   = "hermes.tool.progress"
	progressComment = ": " + progressEvent + " "
)

// writeRunning writes the frame that says that t has started.
func (s *Stream) writeRunning(t *tool) { s.writeProgress(t, "running", false) }

// writeCompleted writes the frame that says that t has ended or, where it is
// interrupted, that the stream has.
func (s *Stream) writeCompleted(t *tool, interrupted bool) {
	s.writeProgress(t, "completed", interrupted)
}

func (s *Stream) writeProgress(t *tool, status string, interrupted bool) {
	if s.form == ProgressOff {
		return
	}
	s.writeLF()
	dst := append(s.out, s.toolFront().event...)
	dst = append(dst, t.name...)
	if status == "running" { // upstream's five fields for a start, three for an end
		if len(t.emoji) > 0 {
			dst = append(dst, `,"emoji":`...)
			dst = append(dst, t.emoji...)
		}
		if len(t.label) > 0 {
			dst = append(dst, `,"label":`...)
			dst = append(dst, t.label...)
		}
	}
	dst = appendStatus(appendCallID(dst, t), status)
	if interrupted && s.envelops() {
		dst = append(dst, `,"interrupted":true`...)
	}
	if s.statusLine() {
		dst = appendStatusLine(dst, t, status)
	}
	s.out = append(dst, "}\n\n"...)
}

// appendBefore appends what stands before the object.
func appendBefore(dst []byte, form Progress) []byte {
	switch form {
	case ProgressComment:
		return append(dst, progressComment...)
	case ProgressUnnamed:
		return append(dst, "data: "...)
	}
	return append(dst, "event: "+progressEvent+"\ndata: "...)
}

// appendCallID appends the id, which G1 lacks.
func appendCallID(dst []byte, t *tool) []byte {
	return append(append(dst, `,"toolCallId":`...), t.id...)
}

// appendStatus appends the status, which G1 lacks.
func appendStatus(dst []byte, status string) []byte {
	if status == "completed" {
		return append(dst, `,"status":"completed"`...)
	}
	return append(dst, `,"status":"running"`...)
}

// statusLine tells whether tool events carry the member that Open WebUI shows.
func (s *Stream) statusLine() bool {
	return s.o.StatusLine && s.envelops()
}

// appendStatusLine appends Open WebUI's status member.
func appendStatusLine(dst []byte, t *tool, status string) []byte {
	dst = append(dst, statusLineHead...)
	emoji, label := jsonspan.Inside(t.emoji), jsonspan.Inside(t.label)
	dst = append(dst, emoji...)
	if len(emoji) > 0 && len(label) > 0 {
		dst = append(dst, ' ')
	}
	dst = append(dst, label...)
	if len(emoji)+len(label) == 0 {
		dst = append(dst, jsonspan.Inside(t.name)...)
	}
	return appendStatusLineTail(dst, status == "completed")
}

// statusLineHead is what Open WebUI's status member begins with.
const statusLineHead = `,"event":{"type":"status","data":{"description":"`

func appendStatusLineTail(dst []byte, done bool) []byte {
	return append(strconv.AppendBool(append(dst, `","done":`...), done), `}}`...)
}

// toolFrame handles a tool event of upstream's, in the form in: the frame s.f
// with the object s.c.
func (s *Stream) toolFrame(in Progress) {
	data := s.f.Data
	s.said.shown = true
	if s.c.isChunk(data) { // another sidecar has written it, maybe before any chunk
		s.updateEnvelope()
	}
	t := toolFields{
		name:  jsonspan.StringAt(data, s.c.tool),
		emoji: jsonspan.StringAt(data, s.c.emoji),
		label: jsonspan.StringAt(data, s.c.label),
		id:    jsonspan.StringAt(data, s.c.callID),
	}
	status := string(jsonspan.Inside(jsonspan.StringAt(data, s.c.status)))
	s.framing.Drop()
	switch {
	case s.finished: // too late to be completed before the finish chunk
		s.note(contract.SectionTools, "a tool event behind the finish chunk: dropped")
	case isInternal(t.name): // the ends of internal tools are orphans anyway
		s.note(contract.SectionTools, "a tool event of an internal tool: dropped")
	case status == "completed":
		s.upstreamEnd(&t, in)
	case status == "running" || status == "":
		s.upstreamStart(&t, status, in)
	case in == ProgressBare:
		s.namedFrame()
	default:
		s.redactFrame()
		s.forward()
	}
}

// isInternal tells whether the tool with the name never appears.
func isInternal(name []byte) bool {
	if len(name) < 3 {
		return false
	}
	r, _ := jsonspan.NextRune(jsonspan.Inside(name), 0)
	return r == '_'
}

// settleForTool decides the line under suspicion before a tool event leaves. One
// that does not leave decides nothing.
func (s *Stream) settleForTool() {
	if s.form != ProgressOff {
		s.settle()
	}
}

func (s *Stream) upstreamStart(f *toolFields, status string, in Progress) {
	if f.name == nil {
		f.name = s.literal(`"` + marker.UnknownTool + `"`)
		in = "" // its frame cannot leave as it is
	}
	if f.id != nil && s.tools.known(f.id) {
		s.note(contract.SectionTools, "a tool that has started already: dropped")
		return
	}
	s.settleForTool()
	s.startsLater()
	inferred := status == "" || f.id == nil
	if inferred {
		s.reportsFailures(false)
	}
	t := s.copied(f, inferred)
	s.writeUpstream(&t, in)
	s.open(&t, SourceUpstream)
}

func (s *Stream) upstreamEnd(t *toolFields, in Progress) {
	if t.id == nil {
		if s.tools.findName(t.name) < 0 {
			s.note(contract.SectionTools, "the end of a tool that is not open: dropped")
			return
		}
		s.settleForTool() // which may end tools
		if i := s.tools.findName(t.name); i >= 0 {
			s.complete(i, SourceUpstream)
		}
		return
	}
	if s.tools.find(t.id) < 0 {
		s.note(contract.SectionTools, "the end of a tool that is not open: dropped")
		return
	}
	s.settleForTool() // which may end tools: TestToolEndsWhileTextIsHeld
	i := s.tools.find(t.id)
	if i < 0 {
		return
	}
	ended := s.tools.end(i)
	s.tell(&ended, true, SourceUpstream)
	if ended.name != string(t.name) || !s.asIs(in) {
		s.writeEnd(&ended, in)
		return
	}
	s.redactError()
	s.forward()
}

// writeEnd writes upstream's end of a tool in the stream's form.
func (s *Stream) writeEnd(t *tool, in Progress) {
	if in == ProgressBare && s.envelops() && t.name == string(s.c.tool.Of(s.f.Data)) {
		s.wrap(t, "completed", false, false)
		return
	}
	s.writeCompleted(t, false)
}

// writeUpstream writes upstream's start of a tool in the stream's form,
// byte for byte where it has that form.
func (s *Stream) writeUpstream(t *tool, in Progress) {
	lacksID := jsonspan.StringAt(s.f.Data, s.c.callID) == nil
	lacksStatus := jsonspan.StringAt(s.f.Data, s.c.status) == nil
	switch {
	case !lacksID && !lacksStatus && s.asIs(in):
		s.redactError()
		s.forward()
	case in == ProgressBare && s.envelops():
		s.wrap(t, "running", lacksID, lacksStatus)
	default:
		s.writeRunning(t)
	}
}

// asIs tells whether a tool event in the form in leaves byte for byte.
func (s *Stream) asIs(in Progress) bool {
	return in == s.form && (!s.statusLine() || s.c.statusLine.Ok())
}

// envelops tells whether frames get the members of a chunk in front.
func (s *Stream) envelops() bool {
	f := s.form
	return f == ProgressEnvelope || f == ProgressUnnamed
}

// wrap writes upstream's tool event with the members of a chunk in front of its
// own and those that it lacks behind them.
func (s *Stream) wrap(t *tool, status string, lacksID, lacksStatus bool) {
	s.renameOwn()
	room := s.scratch[:0]
	switch v := s.c.callID; {
	case !lacksID:
	case v.Ok(): // it is null, or empty
		s.edits.Replace(&s.f, v.From, v.To, s.literal(t.id))
	default:
		room = appendCallID(room, t)
	}
	switch v := s.c.status; {
	case !lacksStatus:
	case v.Ok():
		s.edits.Replace(&s.f, v.From, v.To, s.literal(`"`+status+`"`))
	default:
		room = appendStatus(room, status)
	}
	if s.statusLine() && (!s.c.statusLine.Ok() || s.c.statusLine.IsString(s.f.Data)) {
		room = appendStatusLine(room, t, status)
	}
	s.scratch = room
	if s.form == ProgressUnnamed {
		from, to := s.f.EventLine()
		s.edits.ReplaceRaw(&s.f, from, to, nil)
	}
	s.addFront()
	s.redactError()
	s.edits.Replace(&s.f, s.c.shut, s.c.shut, room)
	s.writeEdited()
}

// addFront adds the members of a chunk to the front of the frame's own.
func (s *Stream) addFront() {
	s.note(contract.SectionTools, "a named event: gets the members of a chunk")
	f := s.toolFront()
	front := f.empty
	if jsonspan.SkipSpace(s.f.Data, s.c.open+1) != s.c.shut {
		front.To += len(",")
	}
	s.edits.Replace(&s.f, s.c.open+1, s.c.open+1, front.Of(f.event))
}

// commentEvent handles a tool event in a comment, which another sidecar wrote.
// It is false when the comment is something else.
func (s *Stream) commentEvent(line []byte) bool {
	if !bytes.HasPrefix(line, []byte(progressComment)) {
		return false
	}
	end := len(bytes.TrimRight(line, "\r\n")) // without the blank line
	s.f.SetData(line, len(progressComment), end)
	if !s.c.parse(s.f.Data) || !s.c.isToolEvent(s.f.Data) {
		return false
	}
	s.edits.Reset()
	s.known, s.room = false, s.room[:0]
	s.toolFrame(ProgressComment)
	return true
}
