package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
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

	events  bool     // upstream sent tool events
	shown   evidence // what says most of the release
	foreign bool     // chunks are not written as Hermes writes them
}

// Reported says that nothing is known of the model.
func (r *reading) Reported(string) bool { return false }

// Report and Missed are of no interest: the summary has the usage.
func (r *reading) Report(string) {}
func (r *reading) Missed(string) {}

// ReportsFailures keeps what the engine learns of upstream: a failure that it reports, or a
// marker or a tool event without an id, which only releases that report none send.
func (r *reading) ReportsFailures(does bool) {
	if does {
		r.shows("it reports a failure itself", span{minor(18), newest})
	} else {
		r.shows("a tool event without an id", span{minor(9), last(11)})
	}
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
		if unit == sse.UnitFrame {
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
	switch {
	case r.summary.Markers > 0:
		r.shown = evidence{span{minor(7), last(8)}, "a tool marker that is the whole text of a chunk"}
	case r.events && r.shown.what == "":
		r.shown = evidence{span{minor(12), newest}, "a tool event with an id"}
	}
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
		r.shows("an event "+event+" in the stream", span{newInG4, newest})
		return
	case "approval.request":
		r.shows("an event "+event+" in the stream", span{newInG5, newest})
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
		r.shows("delta.reasoning_content in the stream", span{newInG4, newest})
	}
}

// shows notes something that Hermes sends in the releases of s. What newer ones send says
// more.
func (r *reading) shows(what string, s span) {
	if s.from > r.shown.span.from {
		r.shown = evidence{s, what}
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
