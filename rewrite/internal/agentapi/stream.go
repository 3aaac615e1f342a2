package agentapi

import (
	"bytes"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// kind is the kind of a stream that is not one of chat completions.
type kind uint8

const (
	kindUnknown   kind = iota // passes as it is
	kindResponses             // /v1/responses
	kindRuns                  // /v1/runs/{id}/events
	kindSession               // /api/sessions/{id}/chat/stream
)

// Stream is a stream that is not, or not yet, one of chat completions.
type Stream struct {
	kind         kind
	errors       bool   // the request's path says that errors are looked at
	ended        bool   // the event that ends it has left, upstream's or ours
	failedByUs   bool   // it was ours
	mayHaveEnded bool   // the last frame passed unexamined, and may have been that event
	code         string // of the error that it ended with

	newID   func() string // may be nil
	created int64
	notes   *contract.Notes

	said
	id, seq number
	tools   openTools
	large   *largeFrame // the one that comes, or nil
}

// New returns the Stream of a response that may become one of chat completions.
func New(p *contract.Params, notes *contract.Notes) *Stream {
	s := &Stream{errors: p.Responses, newID: p.ID, created: p.Created, notes: notes}
	if p.RunID != "" {
		s.kind = kindRuns
		remember(&s.ownID, jsonspan.Quote(p.RunID))
	}
	if p.SessionID != "" {
		s.kind = kindSession
		remember(&s.ownID, jsonspan.Quote(p.SessionID))
		s.at = strconv.AppendInt(nil, p.Created, 10)
		s.seq = number{1, true}
	}
	return s
}

// Known reports whether the kind of the stream is known, so that it gets the end that it
// lacks.
func (s *Stream) Known() bool { return s.kind != kindUnknown }

// Ended reports whether the event that ends the stream has left.
func (s *Stream) Ended() bool { return s.ended }

// Open reports whether the kind of the stream is known and the event that ends it has
// not left.
func (s *Stream) Open() bool { return s.Known() && !s.ended }

// Cut reports whether the stream was cut if upstream has ended for the cause.
func (s *Stream) Cut(cause contract.Cause) bool {
	return s.Open() && !(s.mayHaveEnded && cause == contract.CauseEOF)
}

// Summary returns the id of the response, of the run or of the session's run, the model,
// and the code of the error that the stream ended with. Each may be empty.
func (s *Stream) Summary() (id, model, code string) {
	quoted := s.ownID
	if s.kind == kindSession {
		quoted = s.run
	}
	return jsonspan.Unquote(string(quoted)), jsonspan.Unquote(string(s.model)), s.code
}

// Begins records that upstream has ended within a frame whose bytes are tail, unless tail
// is only a comment or blank. Then a frame that passed unexamined before was not the last
// event.
func (s *Stream) Begins(tail []byte) {
	if len(tail) > 0 && tail[0] != ':' && tail[0] != '\n' && tail[0] != '\r' {
		s.mayHaveEnded = false
	}
}

// Comes reports whether the frame f, which lacks only its blank line, is an event of the
// stream before its end.
func (s *Stream) Comes(f *sse.Frame) bool {
	e, ok := eventOf(f)
	if s.Known() || !ok {
		return s.Open()
	}
	k, _ := s.kindOf(e)
	return k != kindUnknown
}

// Frame handles the frame f, and writes it to out with the edits that it adds to edits.
func (s *Stream) Frame(out *sse.Writer, f *sse.Frame, edits *sse.Splice) {
	e, ok := eventOf(f)
	switch {
	case s.failedByUs:
		out.Drop() // nothing may follow the failure that we have written
		return
	case !f.HasData:
	case chunk.IsDone(f.Data):
		if s.Open() && !s.mayHaveEnded {
			s.writeFailed(out, contract.CodeIncomplete)
		}
	case ok:
		if !s.ended {
			s.failCompleted(e, edits)
			s.event(e)
		}
		if s.Known() || s.errors {
			s.redact(e, edits)
		}
	case s.Known() || s.errors:
		if s.kind == kindSession && !s.ended {
			s.ends(f.Event)
		}
		if chunk.TellsState(f.Event) {
			chunk.RedactText(f, edits, s.notes)
		}
	}
	out.Frame(f, edits)
}

// failCompleted makes response.failed of response.completed in e, if its only text says that
// the agent failed (contract section 6).
func (s *Stream) failCompleted(e event, edits *sse.Splice) {
	const from, to = "response.completed", "response.failed"
	response := e.at("response")
	if string(e.responseType()) != from || !response.IsObject(e.Data) {
		return
	}
	t := chunk.ReadTurn(e.Data, response)
	if !t.Failed {
		return
	}
	s.notes.Add(contract.SectionOther, "completed, but its text says that the agent failed: becomes failed")
	if begin, end := e.EventLine(); begin < end {
		begin += bytes.Index(e.Raw[begin:end], []byte(from))
		edits.ReplaceRaw(e.Frame, begin, begin+len(from), []byte(to))
	}
	typ := e.at("type")
	edits.Replace(e.Frame, typ.From, typ.To, []byte(`"`+to+`"`))
	failed := failedResponse(response.Of(e.Data), contract.CodeAgentError, chunk.FailureMessage(t.Text))
	edits.Replace(e.Frame, response.From, response.To, jsonspan.OneLine(failed))
	chunk.Apply(e.Frame, edits)
}

// Finish ends the stream after upstream has ended for the cause. added is the number of
// bytes that completed the last frame. If the stream is complete they are taken back, so
// that it leaves as it came.
func (s *Stream) Finish(out *sse.Writer, cause contract.Cause, added int) {
	switch {
	case s.Cut(cause):
		s.writeFailed(out, cause.Code())
	case s.ended && !s.failedByUs && cause == contract.CauseEOF:
		out.Bytes = out.Bytes[:len(out.Bytes)-added]
	}
}

// kindOf returns the kind of stream that the event certainly belongs to, and its name. Only
// the path says that a stream has the events of a run, because other servers send similar
// ones.
func (s *Stream) kindOf(e event) (kind, []byte) {
	if s.kind == kindSession {
		if chunk.IsNamed(e.Frame) {
			return kindSession, e.Event
		}
		return kindUnknown, nil
	}
	if name := e.responseType(); name != nil {
		return kindResponses, name
	}
	if s.kind == kindRuns {
		if name := e.runName(); name != nil {
			return kindRuns, name
		}
	}
	return kindUnknown, nil
}

// event learns from the event.
func (s *Stream) event(e event) {
	k, name := s.kindOf(e)
	if s.kind == kindUnknown {
		s.kind = k
	}
	switch {
	case s.kind == kindUnknown:
	case k == kindUnknown:
		s.recordError(e)
	case k == s.kind:
		s.mayHaveEnded = false
		s.count(e)
		s.record(k, e)
		s.tool(name, e.toolOf(k))
		s.ends(name)
	}
}

// count remembers the numbers of the event.
func (s *Stream) count(e event) {
	s.id.count(e.ID)
	if s.kind == kindResponses {
		s.seq.count(e.number("sequence_number"))
	} else {
		s.seq.count(e.number("seq"))
	}
}

// tool remembers what the event with the name says of the tool t. The call of a response
// has ended once there is an output: clients run one that has none themselves.
func (s *Stream) tool(name []byte, t openTool) {
	s.nextIndex = max(s.nextIndex, jsonspan.SmallInt(t.index)+1)
	switch string(name) {
	case "tool.completed", "tool.failed":
		s.tools.end(t.key)
	case "tool.started":
		s.tools.start(t)
	case "response.output_item.added", "response.output_item.done":
		switch i := s.tools.find(t.key); {
		case t.done:
			s.tools.end(t.key)
		case i >= 0:
			s.tools[i].done = string(name) == "response.output_item.done"
		case t.data != nil && t.index != nil && string(name) == "response.output_item.added":
			s.tools.start(t)
		}
	}
}

// lastEvents are the last events of a response and of a run, and whether they say that it has
// failed.
var lastEvents = map[string]bool{
	"response.failed": true, "response.completed": false, "response.incomplete": false, "response.cancelled": false,
	"response.canceled": false, "response.done": false,
	"run.failed": true, "run.interrupted": true, "run.completed": false, "run.cancelled": false, "run.canceled": false,
}

// ends records that the stream has ended, if the event with the name ends it.
func (s *Stream) ends(name []byte) {
	failed, last := lastEvents[string(name)]
	if s.kind == kindSession {
		failed, last = string(name) == "error" || string(name) == "run.failed", string(name) == "done"
	}
	if failed {
		s.code = contract.CodeAgentError
	}
	if last {
		s.ended, s.response, s.tools = true, nil, nil
	}
}

// recordError remembers the message of an error event, which writeFailed repeats.
func (s *Stream) recordError(e event) {
	typ := e.at("type")
	isError := typ.Is(e.Data, `"error"`) || string(e.Event) == "error"
	if !isError && (chunk.IsNamed(e.Frame) || typ.Ok() || !e.at("error").IsSet(e.Data)) {
		return
	}
	if s.kind == kindResponses {
		s.count(e)
	}
	for _, text := range [][]byte{e.text("error", "message"), e.text("error"), e.text("message")} {
		if text != nil && len(text) <= contract.MaxMessage && jsonspan.Valid(text) {
			s.message = bytes.Clone(redact.Value(text))
			return
		}
	}
}

// redact adds the edits that take secrets out of what the event says of a failure or of the
// agent's state.
func (s *Stream) redact(e event, edits *sse.Splice) {
	all := chunk.TellsState(e.Event) || chunk.TellsState(jsonspan.Inside(e.text("type"))) ||
		chunk.TellsState(jsonspan.Inside(e.text("event")))
	if s.kind == kindSession && chunk.IsNamed(e.Frame) {
		all = string(e.Event) == "error" || string(e.Event) == "hermes.status"
	}
	if all {
		chunk.Redact(e.Frame, edits, s.notes, func(each func(jsonspan.Span)) { chunk.EachSecret(e.Data, e.object(), each) })
		return
	}
	if mayFail(e.Data) {
		chunk.Redact(e.Frame, edits, s.notes, func(each func(jsonspan.Span)) {
			chunk.EachError(e.Data, func(v jsonspan.Span) { chunk.EachSecret(e.Data, v, each) })
		})
	}
	if !redact.MaySay(e.Data) || s.kind == kindSession && string(e.Event) != "assistant.completed" {
		return
	}
	chunk.Apply(e.Frame, edits)
	texts := e.object()
	if s.kind == kindSession {
		texts = e.at("content")
	}
	chunk.Redact(e.Frame, edits, s.notes, func(each func(jsonspan.Span)) { chunk.EachSaid(e.Data, texts, false, each) })
}

// mayFail reports whether the object may have an error. It is cheap, and errs only by
// returning true.
func mayFail(data []byte) bool {
	for _, sign := range []string{`error"`, `hermes"`, `incomplete_details"`, `\u`} {
		if bytes.Contains(data, []byte(sign)) {
			return true
		}
	}
	return false
}
