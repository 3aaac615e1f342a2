package rewrite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	askedof "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
	"github.com/tidwall/gjson"
)

// Bounds of the internal packages that tests of whole streams reach.
const (
	maxApprovalID    = askedof.MaxApprovalID
	maxApprovals     = askedof.MaxApprovals
	maxCalls         = whole.MaxCalls
	maxCardID        = encode.MaxCardID
	maxCardName      = encode.MaxCardName
	maxIdleBuffer    = 16 << 10 // of sse
	maxToolIDs       = chat.MaxToolIDs
	maxEnvelope      = chunk.MaxEnvelope
	maxMessage       = contract.MaxMessage
	maxOpenBytes     = contract.MaxOpenBytes
	maxOpenTools     = contract.MaxOpenTools
	maxRedactedEdits = sse.MaxEdits
	maxResponse      = agentapi.MaxResponse
	maxStretches     = prose.MaxStretches
	maxDropped       = prose.MaxDropped
	maxUsage         = chat.MaxUsage

	progressEvent = encode.ProgressEvent
)

// cutStride is how many times fewer cuts of recordings there are under the race detector.
var cutStride = map[bool]int{false: 1, true: 17}[alone.RaceDetector]

// placesOf yields where a stream of n bytes is cut: at each byte, or at some four hundred places of a longer one.
// These are other places for each nth stream: its frames are like those of the stream before.
func placesOf(n, nth int) iter.Seq[int] {
	step := (1 + n/400) * cutStride
	return func(yield func(int) bool) {
		for i := nth % step; i <= n; i += step {
			if !yield(i) {
				return
			}
		}
	}
}

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

// byScript cuts into reads as long as the bytes of the script say, again and again.
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

// scripts yields n random scripts of at most so many bytes, the same each time, as seeds of a fuzz target.
func scripts(n, most int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		r := rand.New(rand.NewPCG(7, 8))
		for range n {
			script := make([]byte, 1+r.IntN(most))
			for i := range script {
				script[i] = byte(r.Uint32())
			}
			if !yield(script) {
				return
			}
		}
	}
}

// feedAll feeds in to s in reads that cut sizes, at one time.
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

// anyCut is run in several cuts, of which none may make a difference.
func anyCut(t testing.TB, in string, o Options, p Params, cause Cause) (string, Summary) {
	t.Helper()
	out, sum := run(in, o, p, inOne, cause)
	for _, cut := range []cutter{oneByte, byFrame(in), atRandom(1, 50), atRandom(2, 500)} {
		again, s := run(in, o, p, cut, cause)
		same(t, again, out, "outputs of two cuts")
		equal(t, s, sum, "summaries of two cuts")
	}
	return out, sum
}

// repair repairs a chat stream that ends cleanly, with default options.
func repair(in string) string { return repairWith(in, Options{}) }

func repairWith(in string, o Options) string {
	out, _ := run(in, o, chatParams, inOne, CauseEOF)
	return out
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

// equal fails if got is not want.
func equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	if got != want {
		t.Errorf("%v: got %v, want %v", what, got, want)
	}
}

// atMost fails if got is more than limit.
func atMost[T cmp.Ordered](t testing.TB, got, limit T, what string) {
	t.Helper()
	if got > limit {
		t.Errorf("%s: %v, want at most %v", what, got, limit)
	}
}

// contains fails unless part is in s.
func contains(t testing.TB, s, part string) {
	t.Helper()
	if !strings.Contains(s, part) {
		t.Errorf("no %s in\n%s", part, s)
	}
}

// begins fails unless s begins with part.
func begins(t testing.TB, s, part string) {
	t.Helper()
	same(t, s[:min(len(s), len(part))], part, "beginnings")
}

// A row is a stream of a chat and its result. An empty field is not compared.
type row struct {
	in        string
	o         Options
	out       string // the bytes that leave; passes for those that came
	content   string // what the client reads; nothing for no text
	reasoning string
	starts    string // "emoji label" of each tool that starts, or nothing
	story     string // view.story
	end       string // the finish reason, or the code of an error finish
}

// underAll repairs in with all options, in several cuts and twice, and calls see with what leaves.
func underAll(t *testing.T, in string, see func(o Options, out string, v *view)) {
	t.Helper()
	for _, o := range allOptions() {
		out, _ := anyCut(t, in, o, chatParams, CauseEOF)
		same(t, repairWith(out, o), out, "twice and once")
		v := look(t, out)
		v.checkLifecycle(t)
		if see(o, out, v); t.Failed() {
			t.Fatalf("%+v: %q becomes\n%s", o, in, out)
		}
	}
}

const (
	passes  = "passes"
	nothing = "nothing"
)

// check repairs the streams of rows, in several cuts, and twice.
func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			out, sum := anyCut(t, r.in, r.o, chatParams, CauseEOF)
			same(t, repairWith(out, r.o), out, "twice and once")
			r.compare(t, out, sum)
			if t.Failed() {
				t.Logf("%q becomes\n%s", r.in, out)
			}
		})
	}
}

// compare compares what a client gets with what the row says.
func (r row) compare(t *testing.T, out string, sum Summary) {
	t.Helper()
	if r.out == passes {
		r.out = r.in
	}
	if r == (row{in: r.in, o: r.o, out: r.out}) && r.out != "" {
		same(t, out, r.out, "bytes") // of what may be no JSON
		return
	}
	v := look(t, out)
	v.checkLifecycle(t)
	var starts []string
	for _, s := range v.starts() {
		starts = append(starts, s.emoji+" "+s.label)
	}
	for _, c := range []struct{ what, got, want string }{
		{"bytes", out, r.out}, {"contents", v.content, r.content}, {"reasonings", v.reasoning, r.reasoning},
		{"starts", strings.Join(starts, ", "), r.starts}, {"stories", v.story(), r.story},
	} {
		switch c.want {
		case "":
		case nothing:
			same(t, c.got, "", c.what)
		default:
			same(t, c.got, c.want, c.what)
		}
	}
	switch code := sum.Code; {
	case r.end == "":
	case code == "" || code != r.end:
		equal(t, code+strings.Join(v.finishes, " "), r.end, "the end")
	default:
		v.checkErrorFinish(t, code)
		equal(t, len(v.finish.Error) > 0, r.o.ErrorFinish == ErrorFinishInline, "an error in the finish chunk")
	}
}

// deltasOf cuts content into deltas of n runes.
func deltasOf(content string, n int) string {
	var b strings.Builder
	for rs := []rune(content); len(rs) > 0; {
		k := min(n, len(rs))
		b.WriteString(text(string(rs[:k])))
		rs = rs[k:]
	}
	return b.String()
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
	comment   = ": a comment\n\n"
)

// memory is a UsageMemory of its own.
type memory map[string]bool

func (m memory) Reported(model string) bool { return m[model] }
func (m memory) Report(model string)        { m[model] = true }
func (m memory) Missed(string)              {}
func (m memory) ReportsFailures(bool)       {}
func (m memory) SendsEvents() bool          { return m["events"] }
func (m memory) ShowedEvents(does bool)     { m["events"] = does }

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
func keysInOrder(object string) (keys []string) {
	gjson.Parse(object).ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.String())
		return true
	})
	return keys
}

// redacted stands in the place of a secret.
const redacted = "[redacted]"

// always returns a function that returns id.
func always(id string) func() string { return func() string { return id } }

var chatParams = Params{Active: true, ID: always("chatcmpl-none"), Created: 1700000000}

const envelopeOfTests = `"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795164800, "model": "hermes-agent"`

// asciiJSON writes s as Python's json.dumps does.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range rawJSON(s) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// escapedJSON is s as JSON for HTML pages, as Go and PHP write it.
func escapedJSON(s string) string {
	b, _ := json.Marshal(s) // a string cannot fail
	return strings.ReplaceAll(string(b), "/", `\/`)
}

// delta is a chunk whose delta has the members.
func delta(members string) string {
	return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {` + members + `}, "finish_reason": null}]}` + "\n\n"
}

func text(s string) string      { return delta(`"content": ` + asciiJSON(s)) }
func reasoning(s string) string { return delta(`"reasoning_content": ` + asciiJSON(s)) }
func role() string              { return delta(`"role": "assistant"`) }

// texts is a chunk for each of ss.
func texts(ss ...string) string {
	var b strings.Builder
	for _, s := range ss {
		b.WriteString(text(s))
	}
	return b.String()
}

// markerChunk is a real marker as G0 sends it.
func markerChunk(emoji, label string) string { return text("\n`" + emoji + " " + label + "`\n") }

// ofChoice is the frame of another choice.
func ofChoice(i int, frame string) string {
	return strings.Replace(frame, `"index": 0`, fmt.Sprintf(`"index": %d`, i), 1)
}

// finishChunk is a finish chunk with more members after the choices.
func finishChunk(reason, more string) string {
	return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {}, "finish_reason": "` + reason + `"}]` + more + "}\n\n"
}

func stop() string { return finishChunk("stop", realUsage) + doneFrame }

// turn is a whole stream with the frames.
func turn(frames ...string) string { return role() + strings.Join(frames, "") + stop() }

// named is an event with a name.
func named(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// g1 is a tool event as v0.9 sends it.
func g1(tool, emoji, label string) string {
	return named("hermes.tool.progress", `{"tool": `+asciiJSON(tool)+`, "emoji": `+asciiJSON(emoji)+`, "label": `+asciiJSON(label)+`}`)
}

// g2Start and g2End are tool events as v0.12 sends them.
func g2Start(tool, emoji, label, id string) string {
	return named("hermes.tool.progress", `{"tool": `+asciiJSON(tool)+`, "emoji": `+asciiJSON(emoji)+`, "label": `+asciiJSON(label)+
		`, "toolCallId": `+asciiJSON(id)+`, "status": "running"}`)
}

func g2End(tool, id string) string {
	return named("hermes.tool.progress", `{"tool": `+asciiJSON(tool)+`, "toolCallId": `+asciiJSON(id)+`, "status": "completed"}`)
}

// captures are the recordings.
const captures = "../testdata/captures"

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// recording is a recorded stream.
type recording struct{ generation, scenario, body string }

func (r recording) name() string { return r.generation + "/" + r.scenario }

// chat reports whether r is a stream of chat completions.
func (r recording) chat() bool {
	return !strings.HasPrefix(r.scenario, "runs.") && !strings.HasPrefix(r.scenario, "responses.") && !r.session()
}

// session reports whether r is a stream of a session.
func (r recording) session() bool { return strings.HasPrefix(r.scenario, "session.") }

// params are those of a request for the stream.
func (r recording) params() Params {
	switch {
	case r.chat():
		return chatParams
	case r.session():
		return sessionParams
	}
	return otherParams(r.body)
}

// recordings returns the recordings of the generations, or all without any.
func recordings(t testing.TB, generations ...string) (rs []recording) {
	t.Helper()
	for _, pattern := range []string{"*/*.sse", "agent-loop/*/*.sse", "../written/*.sse"} {
		paths, err := filepath.Glob(filepath.Join(captures, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			rel, _ := filepath.Rel(captures, path)
			rel = filepath.ToSlash(rel)
			i := strings.LastIndexByte(rel, '/')
			r := recording{generation: rel[:i], scenario: strings.TrimSuffix(rel[i+1:], ".sse")}
			if len(generations) > 0 && !slices.Contains(generations, r.generation) {
				continue
			}
			r.body = readFile(t, path)
			rs = append(rs, r)
		}
	}
	if len(rs) == 0 {
		t.Fatalf("no recordings of %v in %s", generations, captures)
	}
	return rs
}

// chats returns the recordings that are streams of chat completions.
func chats(t testing.TB, generations ...string) (rs []recording) {
	t.Helper()
	for _, r := range recordings(t, generations...) {
		if r.chat() {
			rs = append(rs, r)
		}
	}
	return rs
}

// corpus returns a file of the corpus beside the project, and skips the test where there is none.
func corpus(t testing.TB, path ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{"..", "..", "shared", "corpus"}, path...)...)
	b, err := os.ReadFile(p)
	if os.IsNotExist(err) {
		t.Skipf("the corpus of recorded streams is not beside the project: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
