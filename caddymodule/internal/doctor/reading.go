package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	summary rewrite.Summary
	done    []string // what the engine did, each thing once, in order
	times   map[string]int
	changed bool // the repaired stream is another one

	events        bool // upstream sent tool events
	tellsFailures bool // upstream reports its failures itself, as since 0.18
	olderThan012  bool // a marker, or a tool event without an id
	newMember     string
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

// read puts a stream through the engine with the options of o and notes what shows.
// Time stands still.
func read(stream []byte, path string, cause rewrite.Cause, o *rewrite.Options) *reading {
	r := &reading{times: make(map[string]int)}
	s := rewrite.New(o, rewrite.Params{
		Active: rewrite.IsChatPath(path), Responses: rewrite.IsResponsesPath(path),
		RunID: rewrite.RunOfPath(path), SessionID: rewrite.SessionOfPath(path),
		ID:    func() string { return "chatcmpl-offline" },
		Usage: r,
		OnTool: func(e rewrite.ToolEvent) {
			r.events = r.events || e.Source == "upstream" && !e.Completed
		},
		Explain: r.step,
	})
	repaired := s.Feed(nil, stream, time.Time{})
	repaired = s.Finish(repaired, cause)
	r.summary, r.changed = s.Summary(), !bytes.Equal(repaired, stream)
	r.frames(stream)
	return r
}

// step notes what the engine did to a piece.
func (r *reading) step(s rewrite.Step) {
	for _, n := range s.Notes {
		text := "§" + n.Section + " " + n.Text
		if r.times[text]++; r.times[text] == 1 {
			r.done = append(r.done, text)
		}
	}
}

// maxTold is how many of the engine's notes a finding lists.
const maxTold = 12

// told returns what the engine did in words.
func (r *reading) told() string {
	var all []string
	for _, text := range r.done[:min(len(r.done), maxTold)] {
		if n := r.times[text]; n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		all = append(all, text)
	}
	if more := len(r.done) - maxTold; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// frames looks at the frames for what the engine does not tell.
func (r *reading) frames(stream []byte) {
	c, f := sse.Scanner{MaxFrame: rewrite.DefaultMaxFrame}, sse.Frame{}
	c.Feed(stream)
	for unit, raw, ok := c.Next(); ok; unit, raw, ok = c.Next() {
		switch unit {
		case sse.UnitNoise:
			r.keepalive = r.keepalive || bytes.HasPrefix(raw, []byte(": keepalive"))
		case sse.UnitFrame:
			f.Parse(raw)
			r.frame(&f)
		}
	}
}

// frame looks at a frame.
func (r *reading) frame(f *sse.Frame) {
	switch event := string(f.Event); event {
	case "hermes.status", "approval.request":
		r.newMember = "an event " + event
		return
	}
	var chunk struct {
		Object  string `json:"object"`
		Choices []struct {
			Delta struct {
				ReasoningContent *string `json:"reasoning_content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if len(f.Event) > 0 || json.Unmarshal(f.Data, &chunk) != nil || chunk.Object != "chat.completion.chunk" {
		return
	}
	// Python's json.dumps puts a space behind each colon.
	r.foreign = r.foreign || !bytes.Contains(f.Data, []byte(`"object": "chat.completion.chunk"`))
	if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.ReasoningContent != nil {
		r.newMember = "delta.reasoning_content"
	}
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
	add(r.newMember != "", span{newInG4, newest}, r.newMember+" in the stream")
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
