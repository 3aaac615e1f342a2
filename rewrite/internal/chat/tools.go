package chat

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
)

// MaxToolIDs is the number of ids that are remembered, so that no tool gets that of another.
const MaxToolIDs = 1024

// tools is the list of open tools of a stream (contract section 2). Its methods return
// the transitions that follow from what was read, in order.
type tools struct {
	size func(*encode.Tool) int // how many bytes it takes at most to complete a tool

	open []encode.Tool // in the order in which they started
	ids  ids           // those that tools have had
	last time.Time     // when the last tool started

	upstream bool // upstream has sent a tool event
}

// ids are the last ids, of upstream and derived, that tools have had.
type ids struct {
	cards map[uint64]bool // by the hash of the id, which may be long: whether the tool has a card
	order []uint64        // the hashes, the latest last

	calls  map[uint64]int // by the hash of upstream's id and the name: how many calls there were
	forgot bool           // of more calls than are remembered
}

// call counts a call of the tool with upstream's id, and returns how many there were before.
func (d *ids) call(id, name string) int {
	hash := maphash.String(idSeed, plain(id)+plain(name))
	n := d.calls[hash]
	if d.forgot = d.forgot || n == 0 && len(d.calls) == MaxToolIDs; d.forgot {
		return n
	}
	if d.calls == nil {
		d.calls = map[uint64]int{}
	}
	d.calls[hash] = n + 1
	return n
}

// idSeed is random, so that an attacker cannot choose ids with equal hashes.
var idSeed = maphash.MakeSeed()

// has reports whether a tool has had the id, and whether that tool has a card.
func (d *ids) has(id string) (has, card bool) {
	card, has = d.cards[maphash.String(idSeed, id)]
	return has, card
}

// add remembers the id, unless it is empty, and forgets one that is too old.
func (d *ids) add(id string, card bool) {
	if id == "" {
		return
	}
	if d.cards == nil {
		d.cards = map[uint64]bool{}
	}
	hash := maphash.String(idSeed, id)
	if _, again := d.cards[hash]; again {
		d.order = slices.DeleteFunc(d.order, func(old uint64) bool { return old == hash })
	}
	d.cards[hash], d.order = card, append(d.order, hash)
	if len(d.order) > MaxToolIDs {
		delete(d.cards, d.order[0])
		d.order = d.order[1:]
	}
}

// find returns the index of the tool that upstream's event t is about: of those with its id or, if it
// has none, with its name, the one that has been open longest. It returns -1 if there is none.
func (l *tools) find(t *encode.Tool) int {
	return slices.IndexFunc(l.open, func(o encode.Tool) bool {
		return t.ID == "" && o.Name == t.Name || t.ID != "" && o.OfUpstream() == t.ID
	})
}

// repeats reports whether upstream's start of t says nothing that the start of an open tool with its
// id has not said. Otherwise it is another tool, because upstream's ids are not unique (contract
// section 2).
func (l *tools) repeats(t *encode.Tool) bool {
	says := func(value, old string) bool { return value != "" && plain(value) != plain(old) }
	return t.ID != "" && slices.ContainsFunc(l.open, func(o encode.Tool) bool {
		return o.OfUpstream() == t.ID && !says(t.Name, o.Name) && !says(t.Label, o.Label)
	})
}

// plain returns a JSON string in its one spelling.
func plain(s string) string { return string(jsonspan.Plain([]byte(s))) }

// taken reports whether a tool has, or has had, the id, and whether that tool has a card.
func (l *tools) taken(id string) (taken, card bool) {
	for i := range l.open { // its id may be older than those that are remembered
		if o := &l.open[i]; o.ID == id || o.UpstreamID == id {
			return true, o.Card
		}
	}
	return l.ids.has(id)
}

// start starts the tool of c. That completes the inferred tools if it is at least window
// after the last start, and the oldest tools if their ends would take too much.
func (l *tools) start(c encode.Transition, now time.Time, window time.Duration) (changes []encode.Transition) {
	if now.Sub(l.last) >= window {
		changes = l.inferEnds()
	}
	l.open = append(l.open, c.Tool)
	l.ids.add(c.ID, c.Card)
	l.ids.add(c.UpstreamID, c.Card)
	l.last = now
	return append(append(changes, c), l.bound()...)
}

// end ends the open tool i.
func (l *tools) end(i int, source contract.ToolSource) encode.Transition {
	t := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	return encode.Transition{Tool: t, Completed: true, Source: source}
}

// inferEnds ends the open tools whose end upstream will not send.
func (l *tools) inferEnds() (changes []encode.Transition) {
	for i := 0; i < len(l.open); {
		if !l.open[i].Inferred {
			i++
			continue
		}
		changes = append(changes, l.end(i, contract.SourceInferred))
	}
	return changes
}

// endAll ends all open tools, in the order in which they started. interrupted says that
// the stream ends with an error, so that it is not known whether they have ended (contract
// section 2).
func (l *tools) endAll(interrupted bool) (changes []encode.Transition) {
	for len(l.open) > 0 {
		c := l.end(0, contract.SourceEnd)
		c.Interrupted = interrupted
		changes = append(changes, c)
	}
	return changes
}

// endCost returns how many bytes it takes at most to complete the open tools.
func (l *tools) endCost() (n int) {
	for i := range l.open {
		n += l.size(&l.open[i])
	}
	return n
}

// bound ends tools, the one that has been open longest first, until MaxOpenTools and
// MaxOpenBytes allow the others.
func (l *tools) bound() (changes []encode.Transition) {
	for len(l.open) > contract.MaxOpenTools || l.endCost() > contract.MaxOpenBytes {
		changes = append(changes, l.end(0, contract.SourceInferred))
	}
	return changes
}

// hasOtherID reports whether the event t, which has the status, must not leave with the id that it
// has: the id is another tool's, or the tool has left with another one, or never.
func (l *tools) hasOtherID(t *encode.Transition, status string) bool {
	switch i := l.find(&t.Tool); {
	case t.ID == "":
		return false
	case status == contract.Running:
		taken, _ := l.taken(t.ID)
		return taken
	case isEnd(status):
		return i < 0 || l.open[i].UpstreamID != ""
	}
	return false
}

// waiting returns the open tool that waits for the command, nil if that is not certain.
func (l *tools) waiting(command string) (t *encode.Tool) {
	if len(l.open) == 1 {
		t := l.open[0]
		return &t
	}
	for i := range l.open {
		if requests.Matches(jsonspan.Unquote(l.open[i].Label), command) {
			if t != nil {
				return nil
			}
			one := l.open[i]
			t = &one
		}
	}
	return t
}

// toolWriter keeps the tools of a stream, and writes what happens to them.
type toolWriter struct {
	tools
	w        *encode.Writer
	p        *contract.Params
	window   time.Duration // Options.ParallelWindow
	notes    *contract.Notes
	requests *requests.Requests // nil without Params.Approvals
	memory   *remembered

	started int  // how many tools have
	line    bool // a status line says that a command waits
	details int  // how many bytes the args and results in the events of the stream have
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
		t.tellDetails(c)
		t.memory.transition(c)
		t.w.Transition(c)
		switch {
		case !c.Completed || t.mayWait():
		case !c.Card && !c.Left: // its own status line is in the place of that one
			t.line = false
		case c.MayWait:
			t.takeBack()
		}
	}
}

// begin starts the tool of c, and writes its start. A tool without an id, or with that of
// another tool, gets one of ours.
func (t *toolWriter) begin(c encode.Transition, now time.Time) {
	t.started++
	if c.ID != "" && t.p.Details != nil {
		c.Nth = t.ids.call(c.ID, c.Name)
	}
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

// infer ends the open tools whose end upstream will not send, because the current frame proves it. What it
// proves as well is that no command waits, unless that of an open tool may.
func (t *toolWriter) infer() {
	t.apply(t.inferEnds())
	if t.line && !t.mayWait() {
		t.takeBack()
	}
}

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

// showLine records that a status line says that the command of tool waits, or that of any open tool if tool is
// nil, because that is not certain.
func (t *toolWriter) showLine(tool *encode.Tool) {
	t.line = true
	for i := range t.open {
		t.open[i].MayWait = tool == nil || tool.ID == t.open[i].ID
	}
}

// mayWait reports whether the status line may be about an open tool.
func (t *toolWriter) mayWait() bool {
	return t.line && slices.ContainsFunc(t.open, func(o encode.Tool) bool { return o.MayWait })
}

// loseArgs records that the card of the tool with the id does not show its arguments any more.
func (t *toolWriter) loseArgs(id string) {
	for i := range t.open {
		t.open[i].HasArgs = t.open[i].HasArgs && t.open[i].ID != id
	}
}

// takeBack hides the status line that says that a command waits, if it is shown (contract section 2).
func (t *toolWriter) takeBack() {
	if t.line {
		t.line = false
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
		t.open[i].HasArgs = false // its new card has none
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
	t.notes.Add(contract.SectionTools, "the output of a card that is sent with the end of its tool: dropped")
	t.w.Out.Drop()
}
