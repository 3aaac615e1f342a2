package chat

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// MaxEndedTools is the number of ended tools that are remembered, so that a second start
// of one is dropped.
const MaxEndedTools = 1024

// tools is the list of open tools of a stream, and writes their starts and ends (contract
// section 2). A tool in open has left a start and no end. The zero value is that of a
// stream without tools.
type tools struct {
	open  []tool    // in the order in which they started
	ended []uint64  // the ended tools, a ring; see endedTool
	next  int32     // the index of the oldest in ended, once that is full
	count int32     // the number of tools that have started
	bytes int32     // the bytes of the fields and the cards of open
	cards int32     // the number of tools in open that have a card
	last  time.Time // when the last tool started

	upstream     bool // upstream has sent a tool event
	textSince    bool // text has left since the last tool started
	housekeeping bool // all tools since the last text are housekeeping; see isHousekeeping
}

// toolFields are what a frame says of a tool: values in JSON, quotes included. All but
// the name may be nil.
type toolFields struct {
	name, emoji, label, id []byte
}

// tool is a tool call, with copies of its fields.
type tool struct {
	name, emoji, label, id string

	inferred bool // upstream will not say when it ends
	derived  bool // the id is ours, so that upstream will never send it
	card     bool // its events have cards
}

// size returns the bytes of the fields and the card.
func (t *tool) size() int {
	return len(t.name) + len(t.emoji) + len(t.label) + len(t.id) + t.cardBytes()
}

// cards returns 1 if the tool has a card, and otherwise 0.
func (t *tool) cards() int32 {
	if t.card {
		return 1
	}
	return 0
}

// idSeed is random, so that nobody can choose ids with equal hashes.
var idSeed = maphash.MakeSeed()

// find returns the index of the open tool with the id, or -1.
func (l *tools) find(id []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.id == string(id) })
}

// findName returns the index of the first open tool with the name, or -1.
func (l *tools) findName(name []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.name == string(name) })
}

// endedTool returns what is remembered of an ended tool whose id has the hash: all but the
// lowest bit of the hash, and in that bit whether it had a card.
func endedTool(hash uint64, card bool) uint64 {
	if card {
		return hash | 1
	}
	return hash &^ 1
}

// started reports whether a tool with the id is open or has ended.
func (l *tools) started(id []byte) bool {
	if l.find(id) >= 0 {
		return true
	}
	h := endedTool(maphash.Bytes(idSeed, id), true)
	return slices.ContainsFunc(l.ended, func(e uint64) bool { return endedTool(e, true) == h })
}

// hadCard reports whether a tool with the id that is open or has ended has a card.
func (l *tools) hadCard(id []byte) bool {
	if i := l.find(id); i >= 0 {
		return l.open[i].card
	}
	return slices.Contains(l.ended, endedTool(maphash.Bytes(idSeed, id), true))
}

// markerFields returns the fields of the tool that a marker stands for, in the room of x.
// emoji and label are insides of JSON strings.
func markerFields(x *chunk.Object, t *marker.Table, emoji, label []byte) toolFields {
	quoted := func(inner []byte) []byte {
		return x.Commit(append(append(append(x.Room(), '"'), inner...), '"'))
	}
	return toolFields{name: x.Literal(t.Name(emoji, label)), emoji: quoted(emoji), label: quoted(label)}
}

// begin returns the tool with the fields, before it is open. A tool without an id gets one
// of our own. If it starts late enough to prove that the inferred tools have ended,
// begin completes those.
func (l *tools) begin(w *writer, x *chunk.Object, f *toolFields, inferred bool) tool {
	if w.now.Sub(l.last) >= w.o.Window() {
		l.inferEnds(w)
	}
	derived, n := f.id == nil, len(x.Room())
	all := append(append(append(append(x.Room(), f.name...), f.emoji...), f.label...), f.id...)
	if derived {
		all = w.toolHead().appendCallID(all, int(l.count)+1)
	}
	rest := string(x.Commit(all)) // one string for all fields
	x.Rollback(n)
	cut := func(n int) (field string) {
		field, rest = rest[:n], rest[n:]
		return field
	}
	t := tool{cut(len(f.name)), cut(len(f.emoji)), cut(len(f.label)), rest, inferred, derived, false}
	t.card = w.hasCards() && len(t.id) <= MaxCardID
	return t
}

// startDerived starts a tool that upstream gave no id, and writes its start.
func (l *tools) startDerived(w *writer, x *chunk.Object, f *toolFields, source contract.ToolSource) {
	w.usage.setReportsFailures(false)
	t := l.begin(w, x, f, true)
	w.toolEvent(&t, running, false)
	l.add(w, &t, source)
}

// add adds t to the open tools, after its start has been written.
func (l *tools) add(w *writer, t *tool, source contract.ToolSource) {
	l.report(w, t, false, source)
	l.open = append(l.open, *t)
	l.bytes += int32(t.size()) // the fields fit: they come from one frame
	l.cards += t.cards()
	l.last = w.now
	l.count++
	first := l.count == 1 || l.textSince // the first tool since the last text
	l.housekeeping = isHousekeeping(t.name) && (first || l.housekeeping)
	l.textSince = false
	l.bound(w, 0)
}

// remove removes the open tool i, remembers its id, and returns it.
func (l *tools) remove(i int) tool {
	t := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	l.bytes -= int32(t.size())
	l.cards -= t.cards()
	if t.derived {
		return t
	}
	if h := endedTool(maphash.String(idSeed, t.id), t.card); len(l.ended) < MaxEndedTools {
		l.ended = append(l.ended, h)
	} else {
		l.ended[l.next] = h
		l.next = (l.next + 1) % MaxEndedTools
	}
	return t
}

// complete completes the open tool i, and writes its end. interrupted says that the
// stream ends with an error.
func (l *tools) complete(w *writer, i int, source contract.ToolSource, interrupted bool) {
	t := l.remove(i)
	l.report(w, &t, true, source)
	w.toolEvent(&t, completed, interrupted)
	w.cardOutput(&t, interrupted)
}

// inferEnds completes the open tools whose end upstream will not send.
func (l *tools) inferEnds(w *writer) {
	for i := 0; i < len(l.open); {
		if l.open[i].inferred {
			l.complete(w, i, contract.SourceInferred, false)
		} else {
			i++
		}
	}
}

// completeAll completes all open tools, in the order in which they started. interrupted
// says that the stream ends with an error, so that nobody knows whether they have ended
// (contract section 2).
func (l *tools) completeAll(w *writer, interrupted bool) {
	for len(l.open) > 0 {
		l.complete(w, 0, contract.SourceEnd, interrupted)
	}
}

// endCost returns how many bytes it takes to complete the open tools, if each event
// becomes longer by that many bytes.
func (l *tools) endCost(w *writer, longer int) int {
	if len(l.open) == 0 || w.form == contract.ProgressOff {
		return int(l.bytes) + len(l.open)*longer
	}
	f := w.toolHead()
	return int(l.bytes) + len(l.open)*(len(f.event)+ownSize+longer) + int(l.cards)*(f.empty.To-f.empty.From+longer)
}

// bound completes tools, the one that has been open longest first, until MaxOpenTools and
// MaxOpenBytes allow the others, even if each event becomes longer by that many bytes.
func (l *tools) bound(w *writer, longer int) {
	for len(l.open) > contract.MaxOpenTools || len(l.open) > 0 && l.endCost(w, longer) > contract.MaxOpenBytes {
		l.complete(w, 0, contract.SourceInferred, false)
	}
}

// report reports to the notes and to OnTool that the tool t has started or ended.
func (l *tools) report(w *writer, t *tool, ended bool, source contract.ToolSource) {
	if w.notes != nil {
		doing := "starts"
		if ended {
			doing = "has ended"
		}
		w.notes.Add(contract.SectionTools, "tool "+jsonspan.Unquote(t.name)+" "+doing+": "+source.Reason())
	}
	if w.onTool != nil {
		w.onTool(contract.ToolEvent{ID: jsonspan.Unquote(t.id), Name: jsonspan.Unquote(t.name), Completed: ended, Source: source})
	}
}

// isHousekeeping reports whether Hermes may call the tool with the name, a JSON string,
// behind its answer. The text before such a tool is the answer (contract section 3, rule
// 2).
func isHousekeeping(name string) bool {
	switch name {
	case `"memory"`, `"todo"`, `"todo_list"`, `"skill_manage"`, `"session_search"`:
		return true
	}
	return false
}
