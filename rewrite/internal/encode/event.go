package encode

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
)

const (
	// ProgressEvent is the name of tool events.
	ProgressEvent = "hermes.tool.progress"
	// ProgressComment begins a tool event in a comment.
	ProgressComment = ": " + ProgressEvent + " "
)

// Tool is a tool call. Its fields are JSON strings, quotes included. All but the name and
// the id may be empty.
type Tool struct {
	Name, Emoji, Label, ID string
	UpstreamID             string // the id that upstream has for it, empty if that is ID
	Card                   bool   // its events have cards
	shown                         // as users read them; see Show
	Inferred               bool   // upstream will not say when it ends

	Nth     int  // how many calls of the same id of upstream's and name the stream had before
	HasArgs bool // its running event has args, which a card without them would replace
	MayWait bool // the status line that says that a command waits may be about it
}

// shown has the texts of a tool as users read them, JSON strings. They are empty where nothing shows
// them.
type shown struct {
	line            string // the description of the status line of a tool without a card
	name, arguments string // of the card
	function        string // the name of the card's function
}

func (s *shown) len() int { return len(s.line) + len(s.name) + 2*len(s.arguments) + len(s.function) }

// OfUpstream returns the id by which upstream's events name the tool.
func (t *Tool) OfUpstream() string { return cmp.Or(t.UpstreamID, t.ID) }

// Transition says that a tool starts or ends.
type Transition struct {
	Tool
	Completed   bool                // it has ended, well or not
	Status      string              // upstream's, if the tool has ended otherwise than completed
	Interrupted bool                // the stream failed, so that it is not known whether the tool has ended
	Source      contract.ToolSource // why it counts as started or ended

	Event *chunk.Object     // upstream's own event, nil if there is none that may leave
	In    contract.Progress // the form of Event
	Left  bool              // an event that is too large to be read has left already

	// Approval says what became of the tool, which has waited for an approval. Waits says that it
	// waits now: its card and its status line say so.
	Approval contract.ApprovalOutcome
	Waits    bool

	// Details are what the tool was given and what it returned. Told says that Event has them already.
	Details contract.ToolDetails
	Told    bool
}

// outcome returns the status of the event of t, that of the items of its card, and the text of
// the card's output without a result.
func (t *Transition) outcome() (status, item, text string) {
	switch {
	case !t.Completed:
		return contract.Running, "in_progress", ""
	case t.Status != "":
		return t.Status, failed, contract.CardOutput(t.Status)
	case t.Interrupted:
		return contract.Completed, failed, contract.CardOutput(contract.Interrupted)
	case t.Approval == contract.ApprovalWaits:
		return contract.Completed, failed, contract.CardOutput(contract.WaitsForApproval)
	case t.Approval != "":
		return contract.Completed, failed, contract.CardOutput(string(t.Approval))
	case t.Details.Failed:
		return contract.Completed, failed, contract.CardOutput(failed)
	}
	return contract.Completed, contract.Completed, contract.CardOutput(contract.Completed)
}

// Outcome returns the status of the tool, which has ended, as its card shows it.
func (t *Transition) Outcome() string {
	_, _, text := t.outcome()
	return contract.CardStatus(text)
}

// failed is the status of the items of a card whose tool has not ended well. Open WebUI would not send
// a call back whose status is incomplete, so that the agent would not know that the tool may have run.
const failed = "failed"

// CallID returns an id, a JSON string, for the tool n of the stream, from 1 on. upstreamID is
// upstream's id if it is another tool's, and empty if upstream has sent none: then the id is derived from
// the completion's. Every replica derives the same id (contract section 2). It is short enough for
// clients that allow 40 characters.
func (w *Writer) CallID(upstreamID string, n int) string {
	h := sha256.Sum256([]byte(cmp.Or(upstreamID, w.envelope().ID)))
	return string(fmt.Appendf(hex.AppendEncode([]byte(`"call_`), h[:10]), `%04d"`, n))
}

// Envelops reports whether named events get the members of a chunk.
func (w *Writer) Envelops() bool { return w.Form.Envelops() }

// Show sets what users read of the tool, which has started.
func (w *Writer) Show(t *Tool) {
	if !t.Card {
		if !w.o.NoStatusLine && w.Envelops() {
			t.line = quoted(marker.MaxShown, t.Emoji, t.says())
		}
		return
	}
	label := jsonspan.Quote(marker.Line(beginning(t.Label, marker.MaxShown), marker.MaxShown))
	t.name = quoted(MaxCardName, t.Emoji, t.says())
	t.arguments = `"{\"label\": ` + escapeAgain.Replace(string(label)) + `}"`
	if t.function = `"tool"`; functions.MatchString(t.Name) {
		t.function = t.Name
	}
}

// escapeAgain makes the part of a JSON string of what is JSON in its one spelling: that has no other
// characters that need an escape.
var escapeAgain = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// EndSize returns how many bytes it takes at most to complete the tool. The envelope counts
// only where events show it: elsewhere a second sidecar may not know it, if the chunks that
// had it were dropped.
func (w *Writer) EndSize(t *Tool) int {
	chunk := 400 // an event without the envelope's values and the tool's fields
	if w.Envelops() {
		chunk += w.envelope().len()
	}
	n := len(t.Name) + len(t.Emoji) + len(t.Label) + len(t.ID) + t.shown.len() + chunk
	n += len(t.UpstreamID) // which is only held
	if t.Card {            // the call and its output, and the output's chunk
		n += 700 + chunk + 4*len(t.ID)
	}
	return n
}

// StartSize returns how many bytes the event of a tool takes at most, without the fields of
// the tool.
func (w *Writer) StartSize() int {
	n := w.EndSize(&Tool{Card: w.HasCards()})
	switch {
	case w.HasCards():
		n += 4*MaxCardName + 2*4*marker.MaxShown
	case !w.o.NoStatusLine:
		n += 4 * marker.MaxShown
	}
	return n
}

// Transition writes the event of t in the stream's form, and the output of its card. If
// upstream's own event has that form, it leaves byte for byte. An event with an escape in a name is
// written anew, because a client might not find the member.
func (w *Writer) Transition(t *Transition) {
	x := t.Event
	anew := x == nil || x.C.Escaped || t.Name != string(x.String(x.C.Tool))
	switch {
	case t.Left:
	case !anew && w.leavesAsIs(t):
		t.SetID(x)
		x.DropFinish() // the stream would have two (contract section 2)
		if w.Envelops() {
			x.Append(t.addedApproval())
			x.Append(t.addedDetails())
		}
		w.Object(x)
	case !anew && t.In == contract.ProgressBare && w.Envelops():
		w.editEvent(t)
	default:
		w.toolEvent(t)
	}
	if t.Completed && t.Card && w.Envelops() {
		w.cardOutput(t)
	}
}

// leavesAsIs reports whether upstream's event of t lacks nothing that its form has here, but for
// the id, and has no status line beside a card.
func (w *Writer) leavesAsIs(t *Transition) bool {
	x := t.Event
	hasLine := x.C.StatusLine.Ok()
	return t.In == w.Form && x.String(x.C.CallID) != nil && x.String(x.C.Status) != nil &&
		(t.line == "" || hasLine) && !(t.Card && hasLine) && (!t.hasItem() || HasCard(x) && t.UpstreamID == "")
}

// SetID sets the id of upstream's event x, unless it has that of t.
func (t *Tool) SetID(x *chunk.Object) {
	if t.UpstreamID != "" || x.String(x.C.CallID) == nil { // absent, null or empty
		x.Set(x.C.CallID, "toolCallId", []byte(t.ID))
	}
}

// toolEvent writes the event of t as one of our own: upstream's five fields for a start, three
// for an end.
func (w *Writer) toolEvent(t *Transition) {
	head, tail := "event: "+ProgressEvent+"\ndata: {", "}\n\n"
	switch w.Form {
	case contract.ProgressOff:
		return
	case contract.ProgressUnnamed:
		head = "data: {"
	case contract.ProgressComment:
		head, tail = ProgressComment+"{", "}"
	}
	status, _, _ := t.outcome()
	w.own(head)
	if w.Envelops() {
		w.own(w.envelope().members(nothing + ",")...)
	}
	w.own(`"tool":`, t.Name)
	if t.Emoji != "" && !t.Completed {
		w.own(`,"emoji":`, t.Emoji)
	}
	if t.Label != "" && !t.Completed {
		w.own(`,"label":`, t.Label)
	}
	w.own(`,"toolCallId":`, t.ID, `,"status":"`, status, `"`)
	if w.Envelops() {
		if t.Interrupted {
			w.own(`,"interrupted":true`)
		}
		w.own(t.approval(), t.details(t.Details.Failed), w.statusLine(t.Completed, t.description()), t.card())
	}
	w.own(tail)
	if w.Form == contract.ProgressComment {
		w.Out.EndComment()
	}
}

// says returns the label or, if it says nothing, the name.
func (t *Tool) says() string {
	if jsonspan.HasText([]byte(jsonspan.Inside(t.Label))) {
		return t.Label
	}
	return t.Name
}

// quoted returns the beginning of texts of upstream's, JSON strings, as a JSON string: one line of at
// most n characters, with a space between the texts.
func quoted(n int, texts ...string) string {
	line := ""
	for _, raw := range texts {
		switch text := strings.Trim(beginning(raw, n), " "); {
		case line == "":
			line = text
		case text != "":
			line += " " + text
		}
	}
	return string(jsonspan.Quote(marker.Line(line, n)))
}

// beginning returns more than n characters of the text of a JSON string, if it has them.
func beginning(raw string, n int) string {
	const longest = len(`\ud83d\udcbb`)
	inner := jsonspan.Inside(raw)
	if inner = inner[:min(len(inner), (n+2)*longest)]; strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return string(jsonspan.AppendText(nil, []byte(inner)))
}

// approval returns the member that says what became of a tool that has waited for an approval.
func (t *Transition) approval() string {
	if t.Approval == "" {
		return ""
	}
	return `,"` + requests.MemberOutcome + `":"` + string(t.Approval) + `"`
}

// outcomes begin the descriptions of tools that were not approved.
var outcomes = map[contract.ApprovalOutcome]string{
	contract.ApprovalWaits: waitsName, contract.ApprovalDenied: "Denied:", contract.ApprovalExpired: "Not approved:",
}

// description returns the description of the status line, a JSON string.
func (t *Transition) description() string {
	outcome := outcomes[t.Approval]
	if t.line == "" || outcome == "" {
		return t.line
	}
	return quoted(marker.MaxShown, `"`+outcome+`"`, t.Emoji, t.says())
}

// editEvent writes upstream's event of t, which is bare, with the members of a chunk, and
// with the id and the status if it lacks them.
func (w *Writer) editEvent(t *Transition) {
	x := t.Event
	status, _, _ := t.outcome()
	w.addChunkMembers(x, t.Card || HasCard(x))
	if w.Form == contract.ProgressUnnamed { // first, because another edit may cover the line
		x.DropName()
	}
	t.SetID(x)
	if x.String(x.C.Status) == nil {
		x.Set(x.C.Status, "status", []byte(`"`+status+`"`))
	}
	x.Append(t.addedApproval())
	x.Append(t.addedDetails())
	w.addStatusLine(x, t.Completed, t.description())
	x.Append(t.card())
	w.Object(x)
}

// addChunkMembers adds the members of a chunk before those of the named event x, and renames
// those that it would then have twice. card says that x becomes a card.
func (w *Writer) addChunkMembers(x *chunk.Object, card bool) {
	x.Notes.Add(contract.SectionTools, "a named event: the members of a chunk are added")
	x.RenameMembers(card)
	members, at := strings.Join(w.envelope().members(nothing), ""), x.C.All.From+1
	if jsonspan.SkipSpace(x.F.Data, at) != x.C.All.To-1 {
		members += ","
	}
	x.Replace(at, at, []byte(members))
}

// statusLine returns the member that Open WebUI shows, none if the option is off or the description, a
// JSON string, is empty.
func (w *Writer) statusLine(done bool, description string) string {
	if w.o.NoStatusLine || description == "" {
		return ""
	}
	return `,"event":{"type":"status","data":{"description":` + description + `,"done":` + strconv.FormatBool(done) + `}}`
}

// addStatusLine adds a status line to the named event x, unless it has one of its own.
func (w *Writer) addStatusLine(x *chunk.Object, done bool, description string) {
	if v := x.C.StatusLine; !v.Ok() || v.IsString(x.F.Data) {
		x.Append(w.statusLine(done, description))
	}
}

// StatusEvent is the event with which the newest Hermes reports its state.
const StatusEvent = "hermes.status"

// IsState reports whether the named event x is about upstream's state.
func IsState(x *chunk.Object) bool {
	name := string(x.F.Event)
	return name == StatusEvent || name == requests.Event
}

// NamedEvent writes a named event that is neither a chunk nor a tool event. Strict clients
// break on one without the members of a chunk (contract section 2). wrapped says that it has
// those from another sidecar, and finished that the finish chunk has left. ask says what a request
// for approval gets; it may be nil, and NamedEvent may set its Shown. NamedEvent reports whether the event
// has become a status line that says that a command waits.
func (w *Writer) NamedEvent(x *chunk.Object, wrapped, finished bool, ask *Ask) (waiting bool) {
	c := &x.C
	waits := ask.waits(w)
	if w.Envelops() && !wrapped {
		w.addChunkMembers(x, waits != nil)
		text, command := x.String(x.Member("text")), x.String(x.Member("command"))
		if command == nil && ask.members() != "" { // what cannot be shown
			command = []byte(`"?"`)
		}
		switch name := string(x.F.Event); {
		case name == StatusEvent && text != nil: // a status is done when it is sent
			w.addStatusLine(x, true, quoted(marker.MaxShown, string(text)))
		case name == requests.Event && command != nil && !finished: // or it would stay
			w.addStatusLine(x, false, ask.statusLine(string(command)))
			waiting = !w.o.NoStatusLine
		}
		if waits != nil {
			x.Append(waits.card())
			ask.Shown = true
		}
	}
	x.Append(ask.members())
	// Without its event: line the event is a chunk for clients and for a second sidecar. It keeps
	// the line if such a chunk would say anything, and after the finish chunk.
	if w.Form == contract.ProgressUnnamed && (IsState(x) || string(x.F.Event) == CardEvent) && !finished &&
		!c.Err.Ok() && !c.Usage.Ok() && !c.Hermes.Ok() && !c.Tool.Ok() {
		x.DropName()
		w.HasChunk = true
	}
	w.Object(x)
	return waiting
}

// TakeBack writes a chunk that hides the status line, which says that a command waits.
func (w *Writer) TakeBack() { w.Hide(waitsName[:len(waitsName)-1]) }

// Hide writes a chunk that hides the status line. Its name is that of all that is there for Open WebUI
// alone.
func (w *Writer) Hide(description string) {
	if w.Form == contract.ProgressEnvelope {
		w.own("event: " + CardEvent + "\n")
	}
	w.chunk(nothing, `,"event":`, string(HiddenStatus(description)))
}

// HiddenStatus returns the status with the description that is over, and that Open WebUI hides.
func HiddenStatus(description string) []byte {
	return []byte(`{"type":"status","data":{"description":` + string(jsonspan.Quote(description)) + `,"done":true,"hidden":true}}`)
}
