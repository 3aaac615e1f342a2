package rewrite

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// epoch is the time at which the tests' clock stands still.
var epoch = time.Unix(1795164800, 0)

// A cutter says how many of n bytes the next read takes.
type cutter func(n int) int

func inOne(n int) int   { return n }
func oneByte(n int) int { return 1 }

// atRandom cuts into reads of 1 to most bytes, the same for the same seed.
func atRandom(seed uint64, most int) cutter {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(n int) int { return min(n, 1+r.IntN(most)) }
}

// byScript cuts into reads as long as the bytes of the script say, again and
// again.
func byScript(script []byte) cutter {
	i := 0
	return func(n int) int {
		if len(script) == 0 {
			return n
		}
		i++
		return min(n, 1+int(script[(i-1)%len(script)]))
	}
}

// feedAll feeds in to s in reads cut by cut, time standing still.
func feedAll(s *Stream, in string, cut cutter) []byte {
	var out []byte
	for len(in) > 0 {
		n := cut(len(in))
		// A read of its own, spoiled after, proves that nothing is kept.
		read := []byte(in[:n])
		out = s.Feed(out, read, epoch)
		for i := range read {
			read[i] = '?'
		}
		in = in[n:]
	}
	return out
}

// run repairs in, which ends with cause.
func run(in string, o Options, p Params, cut cutter, cause Cause) (string, Summary) {
	s := New(&o, p)
	out := s.Finish(feedAll(s, in, cut), cause)
	return string(out), s.Summary()
}

// repair repairs a chat stream that ends cleanly, with default options.
func repair(in string) string { return repairWith(in, Options{}) }

func repairWith(in string, o Options) string {
	out, _ := run(in, o, chatParams, inOne, CauseEOF)
	return out
}

// repairSummary is repairWith for the summary.
func repairSummary(in string, o Options) Summary {
	_, sum := run(in, o, chatParams, inOne, CauseEOF)
	return sum
}

// same fails with the first difference.
func same(t testing.TB, got, want, what string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s differ at byte %d:\n got …%q\nwant …%q", what, i, clip(got, i), clip(want, i))
}

func clip(s string, i int) string {
	return s[max(0, i-80):min(len(s), i+160)]
}

// The streams of the tests are built as Hermes writes them.

const (
	realUsage = `, "usage": {"prompt_tokens": 1234, "completion_tokens": 56, "total_tokens": 1290}`
	zeroUsage = `, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`
	doneFrame = "data: [DONE]\n\n"
	keepalive = ": keepalive\n\n"
)

// memory is a UsageMemory of its own.
type memory map[string]bool

func (m memory) Reported(model string) bool { return m[model] }
func (m memory) Report(model string)        { m[model] = true }
func (m memory) Missed(string)              {}
func (m memory) ReportsFailures(bool)       {}

// compact writes JSON without white space, for comparisons.
func compact(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return b.String()
}

// keysInOrder returns the names of an object's members.
func keysInOrder(t testing.TB, object string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.(string))
		var v json.RawMessage
		if err := d.Decode(&v); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	return keys
}

// What stands where a secret stood.
const redacted = "[redacted]"
