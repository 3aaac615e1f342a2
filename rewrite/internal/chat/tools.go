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

// MaxEndedTools is how many ended tools are remembered, to drop what comes twice.
const MaxEndedTools = 1024

// tools knows which tools of a stream are open, and writes that they start and end
// (contract section 2). The zero value is one of a stream without tools.
type tools struct {
	open  []tool
	ended []uint64 // hashes of the ids of ended tools, a ring
	next  int32    // the oldest of them
	count int32    // the tools that have started
	bytes int32    // what the open ones take
	last  time.Time

	upstream     bool // a tool event of upstream's has come
	textSince    bool // text has left since the last tool started
	housekeeping bool // all tools since the last text are; see isHousekeeping
}

// toolFields are what a frame says of a tool: values as they stand in JSON, quotes
// included. Emoji and label may be absent.
type toolFields struct {
	name, emoji, label, id []byte
}

// tool is a tool call, with a copy of its fields.
type tool struct {
	name, emoji, label, id string

	inferred bool // upstream will not say when it ends
	derived  bool // its id is ours: upstream will not send it
}

func (t *tool) size() int { return len(t.name) + len(t.emoji) + len(t.label) + len(t.id) }

// idSeed makes the hashes of ids such that nobody can make two that agree.
var idSeed = maphash.MakeSeed()

// find returns the index of the open tool with the id, -1 if there is none.
func (l *tools) find(id []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.id == string(id) })
}

// findName returns the index of the first open tool with the name, -1 if
// there is none.
func (l *tools) findName(name []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.name == string(name) })
}

// started reports whether a tool with the id is open or has ended.
func (l *tools) started(id []byte) bool {
	return l.find(id) >= 0 || slices.Contains(l.ended, maphash.Bytes(idSeed, id))
}

// markerFields returns the fields of the tool that a marker stands for: emoji and label
// are insides of JSON strings. They stand in x.
func markerFields(x *chunk.Object, t *marker.Table, emoji, label []byte) toolFields {
	quoted := func(inner []byte) []byte {
		return x.Commit(append(append(append(x.Room(), '"'), inner...), '"'))
	}
	return toolFields{name: x.Literal(t.Name(emoji, label)), emoji: quoted(emoji), label: quoted(label)}
}

// begin returns the tool with the fields, which is not open yet, its fields in one
// string. One that upstream has given no id gets its own. It completes the open tools if
// the start is late enough to prove that they have ended.
func (l *tools) begin(w *writer, x *chunk.Object, f *toolFields, inferred bool) tool {
	if w.now.Sub(l.last) >= w.o.Window() {
		l.inferEnds(w)
	}
	derived, n := f.id == nil, len(x.Room())
	all := append(append(append(append(x.Room(), f.name...), f.emoji...), f.label...), f.id...)
	if derived {
		all = w.toolHead().appendCallID(all, int(l.count)+1)
	}
	rest := string(x.Commit(all))
	x.Rollback(n)
	take := func(n int) (part string) {
		part, rest = rest[:n], rest[n:]
		return part
	}
	return tool{take(len(f.name)), take(len(f.emoji)), take(len(f.label)), rest, inferred, derived}
}

// startDerived starts a tool that upstream gave no id, and writes that it does.
func (l *tools) startDerived(w *writer, x *chunk.Object, f *toolFields, source contract.ToolSource) {
	w.usage.setReportsFailures(false)
	t := l.begin(w, x, f, true)
	w.toolEvent(&t, running, false)
	l.add(w, &t, source)
}

// add opens t. That it starts has been written.
func (l *tools) add(w *writer, t *tool, source contract.ToolSource) {
	l.report(w, t, false, source)
	l.open = append(l.open, *t)
	l.bytes += int32(t.size()) // a frame has no more
	l.last = w.now
	l.count++
	first := l.count == 1 || l.textSince // since the last text
	l.housekeeping = isHousekeeping(t.name) && (first || l.housekeeping)
	l.textSince = false
	l.bound(w, 0)
}

// remove closes the open tool i and returns it.
func (l *tools) remove(i int) tool {
	t := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	l.bytes -= int32(t.size())
	if t.derived {
		return t
	}
	if h := maphash.String(idSeed, t.id); len(l.ended) < MaxEndedTools {
		l.ended = append(l.ended, h)
	} else {
		l.ended[l.next] = h
		l.next = (l.next + 1) % MaxEndedTools
	}
	return t
}

// complete ends the open tool i and writes that it has ended.
func (l *tools) complete(w *writer, i int, source contract.ToolSource) {
	t := l.remove(i)
	l.report(w, &t, true, source)
	w.toolEvent(&t, completed, false)
}

// inferEnds completes the open tools of which upstream will not say when they end.
func (l *tools) inferEnds(w *writer) {
	for i := 0; i < len(l.open); {
		if l.open[i].inferred {
			l.complete(w, i, contract.SourceInferred)
		} else {
			i++
		}
	}
}

// completeAll ends all open tools, in the order in which they started. If the
// stream ends in an error they are interrupted: nobody knows whether they have ended
// (contract section 2).
func (l *tools) completeAll(w *writer, interrupted bool) {
	for len(l.open) > 0 {
		t := l.remove(0)
		l.report(w, &t, true, contract.SourceEnd)
		w.toolEvent(&t, completed, interrupted)
	}
}

// endCost returns how many bytes it takes to complete the open tools, if each event is
// longer than today by so many bytes.
func (l *tools) endCost(w *writer, longer int) int {
	if len(l.open) == 0 || w.form == contract.ProgressOff {
		return int(l.bytes) + len(l.open)*longer
	}
	return int(l.bytes) + len(l.open)*(len(w.toolHead().event)+ownSize+longer)
}

// bound completes tools, the one that is open longest first, until no more is open than
// may be, once each event of the stream is longer by so many bytes.
func (l *tools) bound(w *writer, longer int) {
	for len(l.open) > contract.MaxOpenTools || len(l.open) > 0 && l.endCost(w, longer) > contract.MaxOpenBytes {
		l.complete(w, 0, contract.SourceInferred)
	}
}

// tell tells of the tool t.
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

// isHousekeeping reports whether the tool with the name, a JSON string, is one that
// Hermes may call behind its answer: it then takes the text before for the answer
// (contract section 3, rule 2).
func isHousekeeping(name string) bool {
	switch name {
	case `"memory"`, `"todo"`, `"todo_list"`, `"skill_manage"`, `"session_search"`:
		return true
	}
	return false
}
