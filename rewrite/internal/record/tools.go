package record

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// Tools are the tools of one answer, in the order in which they started. The zero value has none, as nil has.
//
// A hostile answer may have any number of tools, with anything as their arguments: of those that go
// beyond MaxKept only a few names are kept, and how often they came.
type Tools struct {
	runs []contract.ToolRun
	open []uint64 // for each but those that are counted: the hash of its id, 0 once it has ended
	size int      // what those take
	full bool     // further tools are counted by name
}

const (
	// MaxKept is the number of bytes that the tools of an answer may take.
	MaxKept = 32 << 10
	// runSize is what a tool takes beside its texts.
	runSize = 96
)

// Call is a tool that starts.
type Call struct {
	ID, Name string
	Label    string // what upstream says of the tool; shown if Args is empty
	Args     string // what the tool was given, which should be JSON; empty if that is not known
}

// idSeed is random, so that an attacker cannot choose ids with equal hashes.
var idSeed = maphash.MakeSeed()

func hashOf(id string) uint64 { return maphash.String(idSeed, id) | 1 }

// Start records that a tool starts.
func (t *Tools) Start(c Call) {
	run := contract.ToolRun{Name: name(c.Name)}
	if n := runSize + len(run.Name); !t.full {
		run.Args = argsOf(c)
		if n += len(run.Args); t.size+n <= MaxKept {
			t.runs, t.open, t.size = append(t.runs, run), append(t.open, hashOf(c.ID)), t.size+n
			return
		}
		t.full = true
	}
	counted := t.runs[len(t.open):]
	if len(counted) == maxNames {
		run.Name = "" // for all others
	}
	for i := range counted {
		if counted[i].Name == run.Name || i == maxNames {
			counted[i].Times++
			return
		}
	}
	run.Args, run.Times = "", 1
	t.runs = append(t.runs, run)
}

// argsOf returns what a record shows of what a tool was given.
func argsOf(c Call) string {
	switch {
	case c.Args != "":
		return value(c.Args)
	case strings.TrimSpace(c.Label) != "":
		return Quote(c.Label)
	}
	return ""
}

// Ended is how a tool has ended.
type Ended struct {
	Status string  // as contract.ToolRun has it
	Args   string  // as in Call, if that did not have it
	Result *string // what the tool returned; nil if that is not known
}

// End records that the tool with the id that has been open longest has ended.
func (t *Tools) End(id string, e Ended) {
	if t == nil {
		return
	}
	i := slices.Index(t.open, hashOf(id))
	if i < 0 {
		return
	}
	t.open[i] = 0
	run := &t.runs[i]
	run.Ended = e.Status
	if e.Args != "" {
		t.set(&run.Args, value(e.Args))
	}
	if e.Result != nil {
		t.set(&run.Result, Quote(*e.Result))
	}
}

// set sets a text of a tool, if there is room for it.
func (t *Tools) set(text *string, to string) {
	if n := len(to) - len(*text); t.size+n <= MaxKept {
		*text = to
		t.size += n
	}
}

// Runs returns the tools, nil for none. It is valid until the next change.
func (t *Tools) Runs() []contract.ToolRun {
	if t == nil {
		return nil
	}
	return t.runs
}
