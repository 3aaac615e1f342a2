package record

import (
	"hash/maphash"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Tools are the tools of one answer, in the order in which they started. The zero value has none.
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

// End records that the tool with the id that has been open longest has ended with the status, and what
// it has returned: nil if that is not known.
func (t *Tools) End(id, status string, result *string) {
	hash := hashOf(id)
	for i, open := range t.open {
		if open != hash {
			continue
		}
		t.open[i] = 0
		t.runs[i].Ended = status
		if result == nil {
			return
		}
		if shown := Quote(*result); t.size+len(shown) <= MaxKept {
			t.runs[i].Result = shown
			t.size += len(shown)
		}
		return
	}
}

// Runs returns the tools, nil for none. It is valid until the next change.
func (t *Tools) Runs() []contract.ToolRun { return t.runs }

// Failed reports whether a result says that its tool has failed: it is an object with an exit code
// other than 0, an error, or no success (contract section 8).
func Failed(result string) bool {
	b := []byte(result)
	v := jsonspan.Span{From: jsonspan.SkipSpace(b, 0), To: len(b)}
	if !v.IsObject(b) || !jsonspan.Valid(b) {
		return false
	}
	code, failure := jsonspan.MemberOf(b, v, "exit_code"), jsonspan.MemberOf(b, v, "error")
	return code.Ok() && (b[code.From] == '-' || b[code.From] > '0' && b[code.From] <= '9') ||
		failure.IsSet(b) && !failure.Is(b, `""`) || jsonspan.MemberOf(b, v, "success").Is(b, "false")
}
