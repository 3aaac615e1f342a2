package contract

import "strings"

// Params are the particulars of one stream. The zero value is valid.
type Params struct {
	// Active says that the stream is one of chat completions from its first
	// byte on, because the request's path ends in /chat/completions. Otherwise it
	// becomes active at its first chunk (contract section 0).
	Active bool
	// Responses says that the request's path is that of /v1/responses. The events
	// still have to show what the stream is (contract section 6), but its errors lose
	// their secrets from the first one on.
	Responses bool
	// RunID and SessionID are the ids that RunOfPath and SessionOfPath find in the
	// request's path. Without them no stream is one of /v1/runs or of /api/sessions.
	RunID, SessionID string
	// Progress overrides Options.Progress unless it is empty.
	Progress Progress
	// ID and Created, in Unix seconds, are used in an error finish if there was no
	// chunk. ID is called at most once. Nil means an empty id.
	ID      func() string
	Created int64
	// Usage remembers which models report usage. Nil means no memory.
	Usage UsageMemory
	// OnTool is called for each start and end of a tool, in order, whatever form the
	// client gets it in. It may be nil.
	OnTool func(ToolEvent)
	// Remember is told of the answer, for the records of later requests (contract section 8): its text, as
	// the client has it, and the tools that ran during it, which may be none. It is called when the answer
	// has finished or ended, before its last bytes are returned, and again if there is more. Where an answer
	// is split (Split), it is called before that, and what follows is another answer. Nil means that
	// nobody remembers.
	Remember func(answer Text, tools []ToolRun)
	// Results says that Remember gets what tools returned, as far as Details know it.
	Results bool
	// Approvals decides how the client may answer the agent's requests for approval. With nil it
	// may not, and those requests leave with nothing added.
	Approvals Approvals
	// Split ends an answer that asks for a reply (Approval.Code). out is the buffer that Feed
	// appends to, with the end of the answer; Split sends it. It returns an empty buffer for what
	// follows, a stream of its own that the client gets later. Nil means that no answer may be
	// split, so that no code is shown.
	Split func(out []byte) []byte
	// Details tells what upstream's tools were given and what they returned. With nil, events say
	// of that only what upstream's own say.
	Details Details
	// Flush sends out, which is the buffer that Feed appends to, before Details wait. It returns an
	// empty buffer for what follows. Nil means that nothing leaves before Feed returns.
	Flush func(out []byte) []byte
	// Continues says that the client has been sent frames before those of this Stream, so that a
	// byte order mark does not leave.
	Continues bool
	// Explain is called with what becomes of each piece of the stream, and of
	// its end. It may be nil.
	Explain func(Step)
}

// UsageMemory remembers which models of an upstream have reported usage, and
// whether the upstream reports its failures itself and sends tool events. It tells an answer that crashed with
// usage 0/0/0 from one of a provider that never reports usage (contract section 3, third
// rule of "false stop").
type UsageMemory interface {
	// Reported reports whether an answer of the model without usage means that the
	// agent failed: the model has reported usage, at most two of its last ten answers
	// lacked it, and upstream is not known to report its failures.
	Reported(model string) bool
	// Report records that an answer of the model has reported usage.
	Report(model string)
	// Missed records that an answer of the model with text had no usage,
	// whether or not it counted as a crash, because Reported returned true.
	Missed(model string)
	// ReportsFailures records whether upstream reports its failures itself: true
	// once it has shown that it does, false once it has shown that it is too old.
	ReportsFailures(does bool)
	EventMemory
}

// EventMemory remembers whether an upstream sends tool events, so that it writes no markers, and
// ImitationsAuto strips nothing that looks like one (contract section 1).
type EventMemory interface {
	// SendsEvents reports whether upstream is known to send tool events.
	SendsEvents() bool
	// ShowedEvents records that a stream has shown a tool event of upstream's (true), or a marker
	// that is the whole content of a chunk (false), as upstreams write it that send none.
	ShowedEvents(does bool)
}

// ToolEvent says that a tool has started or ended. It identifies the tool, but says
// nothing of what the tool does, because labels may hold secrets.
type ToolEvent struct {
	ID, Name  string     // the tool call id, and the tool's name
	Completed bool       // the tool has ended; otherwise it has started
	Source    ToolSource // why it counts as started or ended
}

// ToolSource says why a tool counts as started or ended (contract sections 1 and 2).
type ToolSource string

// The values of ToolSource.
const (
	SourceUpstream  = "upstream"  // a tool event that upstream sent
	SourceMarker    = "marker"    // a marker in the text; it only starts tools
	SourceImitation = "imitation" // an imitated marker that is trusted; it only starts tools
	SourceInferred  = "inferred"  // what came after the tool, such as text; it only ends tools
	SourceEnd       = "end"       // the end of the stream; it only ends tools
)

var reasons = map[ToolSource]string{
	SourceUpstream:  "upstream says so",
	SourceMarker:    "its marker is here",
	SourceImitation: "a trusted marker is here",
	SourceInferred:  "what follows proves it",
	SourceEnd:       "the stream ends",
}

// Reason returns the source in words.
func (s ToolSource) Reason() string { return reasons[s] }

// Tells reports whether the source can say that a tool has started or, if completed is
// true, that one has ended.
func (s ToolSource) Tells(completed bool) bool {
	if completed {
		return s != SourceMarker && s != SourceImitation
	}
	return s != SourceInferred && s != SourceEnd
}

// Step says what became of a piece of upstream's stream. A piece is a frame, comments,
// a part of a frame that is too large, or the end of the stream. In and Out are only valid
// during the call.
type Step struct {
	In    []byte // the piece as upstream sent it, nil at upstream's end
	Out   []byte // what left for it, with the frames that were held back until now
	Held  bool   // the piece, or the rest of it, is held back
	Notes []Note // what was done, and by which rule; if nothing, the piece left as it came
}

// Note says one thing that was done to a piece: the Section of the wire contract that the
// rule is in, such as "1", and a Text of a few words. It may quote names of tools and codes,
// but nothing that the user or the agent said.
type Note struct{ Section, Text string }

// Notes explains a stream. It may be nil.
type Notes struct{ Take func(Note) }

// Add adds the note that text, which may have parts, was done by a rule in the section of the contract,
// unless n is nil.
func (n *Notes) Add(section string, text ...string) {
	if n != nil {
		n.Take(Note{section, strings.Join(text, "")})
	}
}

// Summary describes a stream.
type Summary struct {
	// ID and Model are those of the completion or of the response, empty until there is
	// one. For the events of a run ID is that of the run.
	ID, Model    string
	FinishReason string // the one that was sent, or empty
	Code         string // the code of the error that the stream ended with, empty if it ended well

	Frames, Chunks int // complete frames with data, and those of them that are chunks
	Tools, Markers int // starts of tools, and those of them that were markers
	Imitations     int // markers that were stripped and started no tool
	Reasoning      int // stretches of reasoning that stood between tags in the text
	Unexamined     int // frames that were larger than Options.MaxFrame
	Keepalives     int // keepalives that were written

	InputTokens, OutputTokens int64 // the usage that upstream reported last, 0 if it reported none
	UsageReported             bool  // the model was known to report usage when the finish chunk came
	ZeroUsagePassed           bool  // the answer had text and usage 0/0/0, and passed
}
