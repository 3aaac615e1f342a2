package chat

import (
	"cmp"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// toolWriter keeps the tools of a stream, and writes what happens to them.
type toolWriter struct {
	tools
	w        *encode.Writer
	p        *contract.Params
	window   time.Duration // Options.ParallelWindow
	notes    *contract.Notes
	requests *approval.Requests // nil without Params.Approvals

	started int // how many tools have
	line    line
}

// line is the status line that says that a command waits.
type line struct {
	shown bool
	tool  string // the id of the tool that waits, empty if that is not certain
}

// apply writes the transitions, and reports each to the notes and to OnTool.
func (t *toolWriter) apply(changes []encode.Transition) {
	for i := range changes {
		c := &changes[i]
		name, verb := jsonspan.Unquote(c.Name), " starts: "
		if c.Completed {
			verb = " has ended: "
		}
		t.notes.Add(contract.SectionTools, "tool ", name, verb, c.Source.Reason())
		if t.p.OnTool != nil {
			t.p.OnTool(contract.ToolEvent{ID: jsonspan.Unquote(c.ID), Name: name, Completed: c.Completed, Source: c.Source})
		}
		if c.Completed { // it needs no approval any more
			c.Approval = cmp.Or(t.requests.Ended(c.ID), c.Approval)
		}
		t.w.Transition(c)
		switch {
		case !c.Completed, t.line.tool != "" && t.line.tool != c.ID:
		case c.Card, c.Left:
			t.takeBack()
		default: // its own status line is in the place of that one
			t.line = line{}
		}
	}
}

// begin starts the tool of c, and writes its start. A tool without an id, or with that of
// another tool, gets one of ours.
func (t *toolWriter) begin(c encode.Transition, now time.Time) {
	t.started++
	if c.ID == "" {
		c.ID = t.newID("")
	} else if taken, _ := t.taken(c.ID); taken && !c.Left {
		c.UpstreamID, c.ID = c.ID, t.newID(c.ID)
	}
	c.Card = !c.Left && len(c.ID) <= encode.MaxCardID &&
		(t.w.HasCards() || c.Event != nil && c.In != contract.ProgressBare && encode.HasCard(c.Event))
	t.w.Show(&c.Tool)
	t.apply(t.start(c, now, t.window))
}

// newID returns an id for the tool that starts now. upstreamID is as for CallID. Upstream may use
// any id, that of ours as well.
func (t *toolWriter) newID(upstreamID string) string {
	for {
		id := t.w.CallID(upstreamID, t.started)
		if taken, _ := t.taken(id); !taken {
			return id
		}
		upstreamID = id
	}
}

// infer ends the open tools whose end upstream will not send, because what comes now proves it.
func (t *toolWriter) infer() { t.apply(t.inferEnds()) }

// finish ends all open tools, as the stream is about to end.
func (t *toolWriter) finish(interrupted bool) {
	t.apply(t.endAll(interrupted))
	t.takeBack()
}

// setEnvelope takes over the values of the chunk x. If they are longer than before, fewer tools
// may be open: the surplus ends with the old values.
func (t *toolWriter) setEnvelope(x *chunk.Object) {
	old, e := t.w.Env, t.w.EnvelopeOf(x)
	t.w.Env = e
	if ends := t.bound(); len(ends) > 0 {
		t.w.Env = old
		t.apply(ends)
		t.w.Env = e
	}
}

// showLine records that a status line says that tool waits, which is nil if that is not certain.
func (t *toolWriter) showLine(tool *encode.Tool) {
	if t.line = (line{shown: true}); tool != nil {
		t.line.tool = tool.ID
	}
}

// takeBack hides the status line that says that a command waits, if it is shown (contract section 2).
func (t *toolWriter) takeBack() {
	if t.line.shown {
		t.line = line{}
		t.w.TakeBack()
	}
}

// endPart writes the ends of the open tools at the end of an answer that is split, and resume their
// starts in the next one: in each of the two, every running tool has one start and one end. Only the
// client sees these: OnTool is not called. The end of waits, or of each tool if that is nil, says that
// it waits for the approval.
func (t *toolWriter) endPart(waits *encode.Tool) {
	for i := range t.open {
		end := encode.Transition{Tool: t.open[i], Completed: true, Source: contract.SourceEnd}
		if waits == nil || waits.ID == end.ID {
			end.Waits, end.Approval = true, contract.ApprovalWaits
		}
		t.w.Transition(&end)
	}
	t.takeBack()
}

// resume writes the starts of the tools that endPart has ended.
func (t *toolWriter) resume() {
	for i := range t.open {
		t.w.Transition(&encode.Transition{Tool: t.open[i], Source: contract.SourceUpstream})
	}
}

// hasOutput reports whether another sidecar has written x as the output of a card: this one's leaves
// with the end of its tool.
func (t *toolWriter) hasOutput(x *chunk.Object) bool {
	id := encode.ItemID(x, "function_call_output")
	if id == nil || !saysNothing(x) {
		return false
	}
	_, card := t.taken(string(id))
	return card
}

// dropOutput drops the output of a card that leaves with the end of its tool.
func (t *toolWriter) dropOutput() {
	t.notes.Add(contract.SectionTools, "the output of a card that leaves with the end of its tool: dropped")
	t.w.Out.Drop()
}
