// Package agentapi completes the streams of Hermes' API that are not chat completions: those
// of /v1/responses, /v1/runs/{id}/events and /api/sessions/{id}/chat/stream (wire
// contract, section 6). They pass byte for byte, but for secrets in what they say of a
// failure. A stream that is cut before its last event gets an event that says so.
//
//	stream.go    Follower: what kind of stream it is, and whether it has ended
//	event.go     an event, its members and its numbers
//	said.go      what a stream has said, and its open tools
//	approvals.go requests for approval
//	failed.go    the events that say that it has failed
//
// Every stream has a Follower until it turns out to be one of chat completions. Once its
// kind is known it does not change. After ended, no event changes anything but code; if
// the sidecar has written the last event itself, what upstream still sends is dropped.
//
// A Follower takes about 300 bytes, and what its last events need: ids, the response as it began
// (at most MaxResponse bytes), and open tools (at most contract.MaxOpenBytes). After its end it
// keeps only ids. An event is asked for the members that matter without being validated; a part that is
// repeated later is validated when it is remembered.
package agentapi

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
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

// Follower follows a stream that is not, or not yet, one of chat completions.
type Follower struct {
	kind         kind
	errors       bool   // the request's path says that errors are looked at
	ended        bool   // the event that ends it has left, upstream's or ours
	failedByUs   bool   // that event was ours
	mayHaveEnded bool   // the last frame passed unexamined, and may have been that event
	code         string // the code of the error that it ended with

	newID   func() string // may be nil
	created int64
	notes   *contract.Notes

	approvals *requests.Requests // nil without Params.Approvals
	said
	large []byte // the beginning of the large frame under way, or nil
}

// New returns the Follower of a response that may become one of chat completions.
func New(p *contract.Params, notes *contract.Notes) *Follower {
	s := &Follower{errors: p.Responses, newID: p.ID, created: p.Created, notes: notes, approvals: requests.New(p.Approvals)}
	if p.RunID != "" {
		s.kind = kindRuns
		remember(&s.ownID, jsonspan.Quote(p.RunID))
	}
	if p.SessionID != "" {
		s.kind = kindSession
		remember(&s.ownID, jsonspan.Quote(p.SessionID))
		s.at = strconv.FormatInt(p.Created, 10)
		s.seq = 1
	}
	return s
}

// Known reports whether the kind of the stream is known, so that it gets the end that it
// lacks.
func (s *Follower) Known() bool { return s.kind != kindUnknown }

// Ended reports whether the event that ends the stream has left.
func (s *Follower) Ended() bool { return s.ended }

// ShowedEndOfRun reports whether upstream has sent the last event of a run.
func (s *Follower) ShowedEndOfRun() bool { return s.kind == kindRuns && s.ended && !s.failedByUs }

// Open reports whether the kind of the stream is known and the event that ends it has
// not left.
func (s *Follower) Open() bool { return s.Known() && !s.ended }

// Cut reports whether the stream was cut, given that upstream has ended with the code. After a
// clean end, CodeIncomplete, a frame that passed unexamined may have been the last event.
func (s *Follower) Cut(code string) bool {
	return s.Open() && !(s.mayHaveEnded && code == contract.CodeIncomplete)
}

// Summary returns the id of the response, of the run or of the session's run, the model,
// and the code of the error that the stream ended with. Each may be empty.
func (s *Follower) Summary() (id, model, code string) {
	quoted := s.ownID
	if s.kind == kindSession {
		quoted = s.run
	}
	return jsonspan.Unquote(quoted), jsonspan.Unquote(s.model), s.code
}

// TailPasses reports whether the bytes after the last complete frame leave as they are, given that
// upstream has ended with the code.
func (s *Follower) TailPasses(code string) bool { return !s.failedByUs && !s.Cut(code) }

// NoteTail records that upstream has ended within a frame whose bytes are tail, unless tail
// is only a comment or blank. Then a frame that passed unexamined before was not the last
// event.
func (s *Follower) NoteTail(tail []byte) {
	if len(tail) > 0 && tail[0] != ':' && tail[0] != '\n' && tail[0] != '\r' {
		s.mayHaveEnded = false
	}
}

// IsEvent reports whether the frame f, which lacks only its blank line, is an event of the
// stream before its end.
func (s *Follower) IsEvent(f *sse.Frame) bool {
	return s.Open() || !s.Known() && s.nameOf(event{Frame: f}) != nil
}

// Frame handles the frame f, and writes it to out with the edits that it adds to edits.
func (s *Follower) Frame(out *sse.Writer, f *sse.Frame, edits *sse.Splice) {
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
		added := ""
		if !s.ended {
			added = s.ask(e, edits) // first, because the command that runs has its secrets
			s.failCompleted(e, edits)
			s.event(e)
		}
		if s.Known() || s.errors {
			s.redact(e, edits)
		}
		if e.more {
			s.noteUnread(f)
		}
		if added != "" {
			end := bytes.LastIndexByte(f.Data, '}')
			edits.Replace(f, end, end, []byte(added))
		}
	case s.Known() || s.errors:
		s.noteUnread(f)
		if chunk.TellsState(f.Event) {
			chunk.RedactText(f, edits, s.notes)
		}
	}
	out.Frame(f, edits)
}

// noteUnread records that data of the frame f is no JSON: it may have been the event that ends the stream, if
// its name, for a frame that has one, says so (contract section 0).
func (s *Follower) noteUnread(f *sse.Frame) {
	switch {
	case !s.Open():
	case chunk.IsNamed(f):
		if s.kind != kindRuns {
			s.endAfter(string(f.Event))
		}
	case !jsonspan.Valid(f.Data) && len(bytes.TrimSpace(f.Data)) > 0:
		s.mayHaveEnded = true
	}
}

// failCompleted turns response.completed in e into response.failed, if its only text says that the
// agent failed (contract section 6).
func (s *Follower) failCompleted(e event, edits *sse.Splice) {
	const from, to = "response.completed", "response.failed"
	response := e.at("response")
	if string(e.responseType()) != from || !response.IsObject(e.Data) {
		return
	}
	t := chunk.ReadTurn(e.Data, response)
	if !t.Failed {
		return
	}
	s.notes.Add(contract.SectionOther, "completed, but its text says that the agent failed: changed to failed")
	if begin, end := e.EventLine(); begin < end {
		begin += bytes.Index(e.Raw[begin:end], []byte(from))
		edits.ReplaceRaw(begin, begin+len(from), []byte(to))
	}
	typ := e.at("type")
	edits.Replace(e.Frame, typ.From, typ.To, []byte(`"`+to+`"`))
	failed := failedResponse(response.Of(e.Data), contract.CodeAgentError, string(chunk.FailureMessage(t.Text)))
	edits.Replace(e.Frame, response.From, response.To, jsonspan.OneLine(failed))
	chunk.Apply(e.Frame, edits)
}

// Finish ends the stream after upstream has ended with the code. added is the number of
// bytes that completed the last frame. If the stream is complete they are taken back, so
// that it leaves as it came.
func (s *Follower) Finish(out *sse.Writer, code string, added int) {
	switch {
	case s.Cut(code):
		s.writeFailed(out, code)
	case s.ended && !s.failedByUs && code == contract.CodeIncomplete:
		out.Bytes = out.Bytes[:len(out.Bytes)-added]
	}
}

// Raw learns from bytes of a frame that passes unexamined because it is larger than the limit.
// last says that the frame ends with them. Raw reports whether the bytes are to be dropped, because
// they follow the sidecar's own last event.
//
// It reads the beginning of the frame, because the last event repeats the whole answer and may be
// that large. How much it reads does not depend on how much there is, so that any cut of the input
// has the same result.
func (s *Follower) Raw(b []byte, last bool, limit int) (drop bool) {
	if s.ended {
		return s.failedByUs
	}
	if s.large == nil {
		s.large = bytes.Clone(b[:min(len(b), limit, maxLook)])
	}
	if !last {
		return false
	}
	if s.large[0] != ':' { // not a comment
		var f sse.Frame
		chunk.ParseBeginning(&f, s.large)
		s.event(event{Frame: &f, large: true})
	}
	s.large = nil
	return false
}

// maxLook is the number of bytes of a large frame that Raw reads at most.
const maxLook = 512

// nameOf returns the name of an event of the stream, or nil if e is none. Only the path says that a
// stream has the events of a run or of a session, because other servers send similar ones.
func (s *Follower) nameOf(e event) []byte {
	switch {
	case s.kind == kindRuns:
		return e.runName()
	case s.kind != kindSession:
		return e.responseType()
	case chunk.IsNamed(e.Frame):
		return e.Event
	}
	return nil
}

// event learns from the event.
func (s *Follower) event(e event) {
	name := s.nameOf(e)
	if name != nil && s.kind == kindUnknown {
		s.kind = kindResponses
	}
	switch {
	case s.kind == kindUnknown:
	case name != nil:
		s.mayHaveEnded = false
		s.record(s.kind, string(name), e)
		s.answered(string(name), e)
		s.endAfter(string(name))
	case e.large && s.kind != kindSession && !chunk.IsNamed(e.Frame) && !e.at("type").Ok(): // it may be any event
		s.mayHaveEnded = true
		s.count(s.kind, e)
	default:
		s.recordError(s.kind, e)
	}
}

// lastEvents are the last events of a response and of a run, and whether they say that it has
// failed.
var lastEvents = map[string]bool{
	"response.failed": true, "response.completed": false, "response.incomplete": false, "response.cancelled": false,
	"response.canceled": false, "response.done": false,
	"run.failed": true, "run.interrupted": true, "run.completed": false, "run.cancelled": false, "run.canceled": false,
}

// endAfter records that the stream has ended, if the event with the name ends it.
func (s *Follower) endAfter(name string) {
	failed, last := lastEvents[name]
	if s.kind == kindSession {
		failed, last = name == "error" || name == "run.failed", name == "done"
	}
	if failed {
		s.code = contract.CodeAgentError
	}
	if last {
		s.end()
	}
}

// end records that the event that ends the stream has left.
func (s *Follower) end() { s.ended, s.response, s.tools = true, nil, nil }

// redact adds the edits that take secrets out of what the event says of a failure or of the
// agent's state.
func (s *Follower) redact(e event, edits *sse.Splice) {
	session := s.kind == kindSession
	all := slices.Contains([]string{"error", "hermes.status", requests.Event}, string(e.Event))
	if !session || !chunk.IsNamed(e.Frame) {
		names := [][]byte{e.Event, jsonspan.Inside(e.text("type")), jsonspan.Inside(e.text("event"))}
		all = slices.ContainsFunc(names, chunk.TellsState)
	}
	chunk.Redact(e.Frame, edits, s.notes, func(each func(jsonspan.Span)) {
		if all {
			chunk.EachSecret(e.Data, e.object(), each)
			return
		}
		chunk.EachError(e.Data, func(v jsonspan.Span) { chunk.EachSecret(e.Data, v, each) })
	})
	if all || !redact.MaySay(e.Data) || session && string(e.Event) != "assistant.completed" {
		return
	}
	chunk.Apply(e.Frame, edits)
	texts := e.object()
	if session {
		texts = jsonspan.MemberOf(e.Data, texts, "content")
	}
	chunk.Redact(e.Frame, edits, s.notes, func(each func(jsonspan.Span)) { chunk.EachSaid(e.Data, texts, false, each) })
}
