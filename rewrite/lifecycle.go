package rewrite

import (
	"hash/maphash"
	"slices"
	"time"
)

// Bounds on what a stream's tools may hold in memory. Where one is reached the
// tool that has been open longest is completed: each running keeps its one
// completed, and no frame is lost.
const (
	// maxOpenTools is how many tools may be open at once.
	maxOpenTools = 256
	// maxOpenBytes is how many bytes the events may take that say that they have
	// ended: one delta ends them all (contract section 7).
	maxOpenBytes = 128 << 10
	// maxEndedTools is how many ended tools are remembered, to drop what comes
	// twice.
	maxEndedTools = 1024
)

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

// copied returns a tool with the fields, in one string. One that upstream has given no
// id gets its own.
func (s *Stream) copied(f *toolFields, inferred bool) tool {
	from, derived := len(s.room), f.id == nil
	s.room = append(append(append(append(s.room, f.name...), f.emoji...), f.label...), f.id...)
	if derived {
		s.room = s.toolFront().appendCallID(s.room, s.tools.count+1)
	}
	all := string(s.room[from:])
	s.room = s.room[:from]
	take := func(n int) (part string) {
		part, all = all[:n], all[n:]
		return part
	}
	return tool{take(len(f.name)), take(len(f.emoji)), take(len(f.label)), all, inferred, derived}
}

// lifecycle knows which tools of a stream are open. The zero value is one of a
// stream without tools.
type lifecycle struct {
	open  []tool
	ended []uint64 // hashes of the ids of ended tools, a ring
	next  int32    // where the ring goes on
	bytes int32
	last  time.Time
	count int // tools started so far
}

// idSeed makes the hashes of ids such that nobody can make two that agree.
var idSeed = maphash.MakeSeed()

// find returns the index of the open tool with the id, -1 when there is none.
func (l *lifecycle) find(id []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.id == string(id) })
}

// findName returns the index of the first open tool with the name, -1 when
// there is none.
func (l *lifecycle) findName(name []byte) int {
	return slices.IndexFunc(l.open, func(t tool) bool { return t.name == string(name) })
}

// known tells whether a tool with the id is open or has ended.
func (l *lifecycle) known(id []byte) bool {
	return l.find(id) >= 0 || slices.Contains(l.ended, maphash.Bytes(idSeed, id))
}

// full tells whether more is open than may be, where an event takes so many bytes
// beside a tool's fields.
func (l *lifecycle) full(event int) bool {
	return len(l.open) > maxOpenTools || len(l.open) > 0 && l.cost(event) > maxOpenBytes
}

// cost returns how many bytes it takes to complete the open tools.
func (l *lifecycle) cost(event int) int { return int(l.bytes) + len(l.open)*event }

// start opens t.
func (l *lifecycle) start(t *tool, now time.Time) {
	l.open = append(l.open, *t)
	l.bytes += int32(t.size()) // a frame has no more
	l.last = now
	l.count++
}

// end closes the open tool i and returns it.
func (l *lifecycle) end(i int) tool {
	t := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	l.bytes -= int32(t.size())
	if t.derived {
		return t
	}
	if h := maphash.String(idSeed, t.id); len(l.ended) < maxEndedTools {
		l.ended = append(l.ended, h)
	} else {
		l.ended[l.next] = h
		l.next = (l.next + 1) % maxEndedTools
	}
	return t
}

// startedBy returns the tool that a marker stands for: emoji and label are the
// insides of JSON strings.
func (s *Stream) startedBy(emoji, label []byte) toolFields {
	return toolFields{
		name:  s.literal(s.o.ToolTable().Name(emoji, label)),
		emoji: s.quoted(emoji),
		label: s.quoted(label),
	}
}

// quoted returns inner as a JSON string. It stays valid until the next frame.
func (s *Stream) quoted(inner []byte) []byte {
	return s.added(append(append(append(s.room, '"'), inner...), '"'))
}

// literal returns text as bytes, valid as long.
func (s *Stream) literal(text string) []byte { return s.added(append(s.room, text...)) }

// startDerived starts a tool that upstream gave no id, and writes its running
// frame.
func (s *Stream) startDerived(f *toolFields, source ToolSource) {
	s.reportsFailures(false)
	s.startsLater()
	t := s.copied(f, true)
	s.writeRunning(&t)
	s.open(&t, source)
}

// startsLater completes the open tools when the start that comes now is late
// enough to prove that they have ended.
func (s *Stream) startsLater() {
	if s.now.Sub(s.tools.last) >= s.o.Window() {
		s.inferEnds()
	}
}

// inferEnds completes the open tools of which upstream will not say when they
// end.
func (s *Stream) inferEnds() {
	for i := 0; i < len(s.tools.open); {
		if s.tools.open[i].inferred {
			s.complete(i, SourceInferred)
		} else {
			i++
		}
	}
}

// open notes that t has started; its running frame has been written.
func (s *Stream) open(t *tool, source ToolSource) {
	s.tell(t, false, source)
	s.tools.start(t, s.now)
	first := s.tools.count == 1 || s.said.sinceTool // since the last text
	s.said.housekeeping = isHousekeeping(t.name) && (first || s.said.housekeeping)
	s.said.sinceTool = false
	if !s.tags.inside && source != SourceImitation { // what is behind that has been read
		s.tags.boundary()
	}
	s.sum.Tools++
	for s.tools.full(s.endSize()) {
		s.complete(0, SourceInferred)
	}
}

// complete ends the open tool i and writes its completed frame.
func (s *Stream) complete(i int, source ToolSource) {
	t := s.tools.end(i)
	s.tell(&t, true, source)
	s.writeCompleted(&t, false)
}

// completeAll ends all open tools, in the order in which they started. Where the
// stream ends in an error they are interrupted: nobody knows whether they have ended
// (contract section 2).
func (s *Stream) completeAll(interrupted bool) {
	for len(s.tools.open) > 0 {
		t := s.tools.end(0)
		s.tell(&t, true, SourceEnd)
		s.writeCompleted(&t, interrupted)
	}
}
