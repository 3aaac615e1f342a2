package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// A reading is what a stream of chat chunks shows. It implements rewrite.UsageMemory: the
// engine tells it what it would remember of the upstream.
type reading struct {
	stream         *rewrite.Stream
	room           []byte       // for what the stream sends
	scan           sse.Scanner  // for what the engine does not tell
	came, repaired maphash.Hash // of all that came, and of all that left

	summary rewrite.Summary
	done    []string // what the engine did, each thing once, in order, at most maxTold
	times   map[string]int
	more    int    // how often it did something that is not in done
	ended   bool   // upstream has ended, and what is below is final
	changed bool   // the repaired stream is another one
	usage   bool   // a chunk has a usage
	reason  string // the message of the last error of upstream's
	status  string // the text of the last hermes.status

	events        bool   // upstream sent tool events
	tellsFailures bool   // upstream reports its failures itself, as since 0.18
	olderThan012  bool   // a marker, or a tool event without an id
	new           string // something in the stream that is new in the release since
	since         release
	keepalive     bool // a comment between two frames
	foreign       bool // chunks are not written as Hermes writes them
}

// Reported says that nothing is known of the model.
func (r *reading) Reported(string) bool { return false }

// Report and Missed are of no interest: the summary has the usage.
func (r *reading) Report(string) {}
func (r *reading) Missed(string) {}

// ReportsFailures keeps what the engine has learnt of upstream.
func (r *reading) ReportsFailures(does bool) {
	r.tellsFailures = r.tellsFailures || does
	r.olderThan012 = r.olderThan012 || !does
}

// newReading returns the reading of a stream that answers a request for the path. Time
// stands still in it.
func newReading(path string) *reading {
	r := &reading{times: make(map[string]int), scan: sse.Scanner{MaxFrame: rewrite.DefaultMaxFrame}}
	r.repaired.SetSeed(r.came.Seed())
	r.stream = rewrite.New(new(rewrite.Options), rewrite.Params{
		Active: rewrite.IsChatPath(path), Responses: rewrite.IsResponsesPath(path),
		RunID: rewrite.RunOfPath(path), SessionID: rewrite.SessionOfPath(path),
		ID:    func() string { return "chatcmpl-offline" },
		Usage: r,
		OnTool: func(e rewrite.ToolEvent) {
			r.events = r.events || e.Source == "upstream" && !e.Completed
		},
		Explain: r.step,
	})
	return r
}

// feed takes in a piece of the stream, as upstream sent it. It never fails.
func (r *reading) feed(piece []byte) error {
	r.came.Write(piece)
	r.room = r.stream.Feed(r.room[:0], piece, time.Time{})
	r.repaired.Write(r.room)
	r.scan.Feed(piece)
	for unit, raw, ok := r.scan.Next(); ok; unit, raw, ok = r.scan.Next() {
		switch unit {
		case sse.UnitNoise:
			r.keepalive = r.keepalive || bytes.HasPrefix(raw, []byte(": keepalive"))
		case sse.UnitFrame:
			var f sse.Frame
			f.Parse(raw)
			r.frame(&f)
		}
	}
	r.scan.Rest()
	r.summary = r.stream.Summary()
	return nil
}

// finish says that upstream has ended for the cause.
func (r *reading) finish(cause rewrite.Cause) {
	r.repaired.Write(r.stream.Finish(nil, cause))
	r.ended, r.summary, r.changed = true, r.stream.Summary(), r.came.Sum64() != r.repaired.Sum64()
}

// maxTold is how many different things that the engine did a finding lists.
const maxTold = 12

// step notes what the engine did to a piece.
func (r *reading) step(s rewrite.Step) {
	for _, n := range s.Notes {
		text := "§" + n.Section + " " + n.Text
		if _, known := r.times[text]; !known && len(r.done) == maxTold {
			r.more++
			continue
		}
		if r.times[text]++; r.times[text] == 1 {
			r.done = append(r.done, text)
		}
	}
}

// frame looks at a frame.
func (r *reading) frame(f *sse.Frame) {
	event := string(f.Event)
	var data struct {
		Object  string `json:"object"`
		Choices []struct {
			Delta struct {
				ReasoningContent *string `json:"reasoning_content"`
			} `json:"delta"`
		} `json:"choices"`
		Usage any    `json:"usage"`
		Error any    `json:"error"`
		Text  string `json:"text"` // of hermes.status
	}
	bad := json.Unmarshal(f.Data, &data) != nil
	switch event {
	case "hermes.status":
		r.status = data.Text
		r.shows("an event "+event, newInG4)
		return
	case "approval.request":
		r.shows("an event "+event, newInG5)
		return
	case "", "error":
		r.reason = cmp.Or(reasonOf(data.Error), r.reason)
	}
	if bad || event != "" || data.Object != "chat.completion.chunk" {
		return
	}
	r.usage = r.usage || data.Usage != nil
	// Python's json.dumps puts a space behind each colon.
	r.foreign = r.foreign || !bytes.Contains(f.Data, []byte(`"object": "chat.completion.chunk"`))
	if len(data.Choices) > 0 && data.Choices[0].Delta.ReasoningContent != nil {
		r.shows("delta.reasoning_content", newInG4)
	}
}

// shows notes something that Hermes sends since a release.
func (r *reading) shows(what string, since release) {
	if since > r.since {
		r.new, r.since = what, since
	}
}

// reasonOf returns the message of an error, "" if it has none.
func reasonOf(err any) string {
	if o, is := err.(map[string]any); is {
		err = o["message"]
	}
	text, _ := err.(string)
	return text
}

// sessionOfNew and sessionOfOld are the forms of Hermes' own session ids since 0.9, and
// before that.
var (
	sessionOfNew = regexp.MustCompile(`^api-[0-9a-f]{16}$`)
	sessionOfOld = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// evidence returns what the stream and its header say of the release.
func (r *reading) evidence(header http.Header) (all []evidence) {
	add := func(is bool, s span, what string) {
		if is {
			all = append(all, evidence{s, what})
		}
	}
	add(r.new != "", span{r.since, newest}, r.new+" in the stream")
	add(r.tellsFailures, span{minor(18), newest}, "it reports a failure itself")
	add(r.summary.Markers > 0, span{minor(7), last(8)}, "a tool marker that is the whole text of a chunk")
	add(r.olderThan012 && r.summary.Markers == 0, span{minor(9), last(11)}, "a tool event without an id")
	add(r.events && !r.olderThan012, span{minor(12), newest}, "a tool event with an id")
	add(r.summary.Reasoning > 0, span{oldest, last(12)}, "reasoning between tags in the text")
	add(r.keepalive, span{minor(9), newest}, "a keepalive comment")

	if r.summary.Chunks == 0 {
		return all // other streams have session ids of other forms
	}
	session := header.Get("X-Hermes-Session-Id")
	direct := strings.HasPrefix(header.Get("Server"), "Python/") && header.Get("Via") == ""
	add(sessionOfNew.MatchString(session), span{minor(9), newest}, "the form of its session id")
	add(sessionOfOld.MatchString(session), span{minor(7), last(8)}, "the form of its session id")
	add(session == "" && direct, span{oldest, last(6)}, "a stream without X-Hermes-Session-Id")
	return all
}
