package record

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// The bounds of what the records of a request take as JSON (contract section 8).
const (
	// MaxRecords is the number of bytes that all of them may take.
	MaxRecords = 32 << 10
	// MaxRecord is the number of bytes that one of them may take.
	MaxRecord = 12 << 10
	// keptRecords is the number of bytes that are left of them when they shrink. It is much less than
	// MaxRecords, so that this happens rarely: a model's provider reads a changed prefix anew.
	keptRecords = 16 << 10
	// aroundRecord is the number of bytes that are written around one.
	aroundRecord = 32
)

// Records are the records of one request, the oldest first. When they take too much, the oldest
// shrink to names, and then go. What becomes of a record depends on nothing but those up to the one
// that made it shrink, so that it is the same in every later request of the conversation.
type Records struct {
	Results bool // records show what tools returned

	list  []Record
	size  int // of all
	whole int // list[whole:] have not shrunk

	// made has the records of what a Memory knows, by their first tool: a history may have one remembered
	// answer ten thousand times.
	made map[*contract.ToolRun]Record
}

// Record is the record of one answer.
type Record struct {
	At         int // where it goes, and whether it is made of what a Memory knows, which are the caller's
	FromMemory bool
	Text       []byte // the inside of a JSON string

	short []byte // what it shrinks to; nil if it has shrunk
}

// Add adds the record of the tools, of which there are some, after all others.
func (r *Records) Add(at int, fromMemory bool, tools []contract.ToolRun) {
	next, ok := r.made[&tools[0]]
	if !ok {
		next = Record{FromMemory: fromMemory, Text: slices.Clip(full(tools, r.Results)), short: short(tools)}
	}
	if fromMemory && !ok {
		if r.made == nil {
			r.made = map[*contract.ToolRun]Record{}
		}
		r.made[&tools[0]] = next
	}
	next.At = at
	r.list = append(r.list, next)
	if r.size += size(&next); r.size <= MaxRecords {
		return
	}
	last := len(r.list) - 1
	for ; r.whole < last && r.size > keptRecords; r.whole++ {
		old := &r.list[r.whole]
		r.size -= size(old)
		if len(old.short) < len(old.Text) {
			old.Text = old.short
		}
		old.short = nil
		r.size += size(old)
	}
	gone := 0
	for ; gone < r.whole && r.size > keptRecords; gone++ {
		r.size -= size(&r.list[gone])
	}
	r.list = r.list[gone:]
	r.whole -= gone
}

func size(r *Record) int { return len(r.Text) + aroundRecord }

// All returns the records that are left.
func (r *Records) All() []Record { return r.list }
