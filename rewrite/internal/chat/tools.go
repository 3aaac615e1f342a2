package chat

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
)

// MaxEndedTools is the number of ended tools that are remembered, so that a second start
// of one is dropped.
const MaxEndedTools = 1024

// tools is the list of open tools of a stream (contract section 2). Its methods return
// the transitions that follow from what has come, in order.
type tools struct {
	size func(*encode.Tool) int // how many bytes it takes at most to complete a tool

	open  []encode.Tool // in the order in which they started
	ended []endedTool
	last  time.Time // when the last tool started

	upstream bool // upstream has sent a tool event
	onTool   bool // no text has left since the last tool started
	working  bool // a tool since the last text is not housekeeping; see isHousekeeping
}

// endedTool is a tool that has ended.
type endedTool struct {
	id   uint64 // the hash of its id, which may be long
	card bool
}

// idSeed is random, so that an attacker cannot choose ids with equal hashes.
var idSeed = maphash.MakeSeed()

// find returns the index of the open tool with the id of t or, if t has none, of the first one
// with its name. It returns -1 if there is none.
func (l *tools) find(t *encode.Tool) int {
	return slices.IndexFunc(l.open, func(o encode.Tool) bool { return o.ID == t.ID || t.ID == "" && o.Name == t.Name })
}

// started reports whether a tool with the id is open or has ended, and whether it has a card.
func (l *tools) started(id string) (started, card bool) {
	if i := l.find(&encode.Tool{ID: id}); i >= 0 {
		return true, l.open[i].Card
	}
	hash := maphash.String(idSeed, id)
	i := slices.IndexFunc(l.ended, func(e endedTool) bool { return e.id == hash })
	return i >= 0, i >= 0 && l.ended[i].card
}

// start starts the tool of c. That completes the inferred tools if it comes at least window
// after the last start, and the oldest tools if their ends would take too much.
func (l *tools) start(c encode.Transition, now time.Time, window time.Duration) (changes []encode.Transition) {
	if now.Sub(l.last) >= window {
		changes = l.inferEnds()
	}
	l.open = append(l.open, c.Tool)
	l.last = now
	l.working = l.onTool && l.working || !isHousekeeping[c.Name]
	l.onTool = true
	return append(append(changes, c), l.bound()...)
}

// end ends the open tool i.
func (l *tools) end(i int, source contract.ToolSource) encode.Transition {
	t := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	if l.ended = append(l.ended, endedTool{maphash.String(idSeed, t.ID), t.Card}); len(l.ended) > MaxEndedTools {
		l.ended = l.ended[1:]
	}
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

// isHousekeeping has the names, JSON strings, of the tools that Hermes may call after its answer.
// The text before such a tool is the answer (contract section 3, rule 2).
var isHousekeeping = map[string]bool{
	`"memory"`: true, `"todo"`: true, `"todo_list"`: true, `"skill_manage"`: true, `"session_search"`: true,
}
