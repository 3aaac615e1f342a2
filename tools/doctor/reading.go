package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// A reading describes a stream of chat chunks.
type reading struct {
	stream         *rewrite.Stream
	out            []byte        // the buffer of the stream
	came, repaired maphash.Hash  // hashes of all bytes that came, and of all that left
	at, first      time.Duration // when the current piece and the first frame with data came, 0 for none

	summary rewrite.Summary
	done    []string // what the engine did, each thing once, in order, at most maxTold
	times   map[string]int
	more    int    // how often it did something that is not in done
	ended   bool   // upstream has ended, and the fields below are final
	changed bool   // the repaired stream differs
	usage   bool   // a chunk has a usage
	reason  string // the message of the last error of upstream's
	status  string // the text of the last hermes.status

	sidecar string   // the version that the sidecar announces in the header, "" for none
	session string   // what Hermes names in the header, "" for none
	events  bool     // upstream sent tool events
	shown   evidence // the evidence that says most of the release
	foreign bool     // chunks are not written as Hermes writes them
}

// newReading returns the reading of a stream that answers a request for the path. The engine gets
// no times.
func newReading(path string) *reading {
	r := &reading{times: make(map[string]int)}
	r.repaired.SetSeed(r.came.Seed())
	r.stream = rewrite.New(new(rewrite.Options), rewrite.Params{
		Active: rewrite.IsChatPath(path), Responses: rewrite.IsResponsesPath(path),
		RunID: rewrite.RunOfPath(path), SessionID: rewrite.SessionOfPath(path),
		ID:      func() string { return "chatcmpl-offline" },
		Explain: r.step,
	})
	return r
}

// feed takes in a piece of the stream, as upstream sent it. It never fails.
func (r *reading) feed(piece []byte) error {
	r.came.Write(piece)
	r.out = r.stream.Feed(r.out[:0], piece, time.Time{})
	r.repaired.Write(r.out)
	r.summary = r.stream.Summary()
	return nil
}

// finish ends the reading: upstream has ended for the cause.
func (r *reading) finish(cause rewrite.Cause) {
	r.repaired.Write(r.stream.Finish(nil, cause))
	r.ended, r.summary, r.changed = true, r.stream.Summary(), r.came.Sum64() != r.repaired.Sum64()
	if r.summary.Markers > 0 {
		r.shown = evidence{span{7_000, 8_999}, "a tool marker that is the whole text of a chunk"}
	}
}

// maxTold is the number of different things done by the engine that a finding lists.
const maxTold = 12

// step records what the engine did to a piece, and what the piece shows.
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
	var f sse.Frame
	if f.Parse(s.In); f.HasData {
		r.first = cmp.Or(r.first, max(r.at, 1))
		r.frame(string(f.Event), f.Data)
	}
}

// frame records what a frame shows.
func (r *reading) frame(event string, b []byte) {
	if b = rewrite.Finite(b); !gjson.ValidBytes(b) {
		b = nil
	}
	data := gjson.ParseBytes(b)
	switch event {
	case "hermes.status":
		r.status = data.Get("text").Str
		r.shows("an event hermes.status in the stream", span{newInG4, newest})
	case "approval.request":
		r.shows("an event approval.request in the stream", span{newInG5, newest})
	case "hermes.tool.progress":
		r.events = true
		if data.Get("toolCallId").Exists() {
			r.shows("a tool event with an id", span{12_000, newest})
		} else {
			r.shows("a tool event without an id", span{9_000, 11_999})
		}
	case "", "error":
		r.reason = cmp.Or(data.Get("error.message").Str, data.Get("error").Str, r.reason)
	}
	if event != "" || data.Get("object").Str != "chat.completion.chunk" {
		return
	}
	r.usage = r.usage || isSet(data.Get("usage"))
	// Python's json.dumps puts a space after each colon.
	r.foreign = r.foreign || !bytes.Contains(b, []byte(`"object": "chat.completion.chunk"`))
	choice := data.Get("choices.0")
	if choice.Get("delta.reasoning_content").Type == gjson.String {
		r.shows("delta.reasoning_content in the stream", span{newInG4, newest})
	}
	if choice.Get("finish_reason").Str != "" && (isSet(data.Get("error")) || isSet(data.Get("hermes"))) {
		r.shows("it reports a failure itself", span{18_000, newest})
	}
}

// isSet reports whether a member is there, and not null.
func isSet(v gjson.Result) bool { return v.Type != gjson.Null }

// shows records what, which Hermes sends in the releases of s, unless the reading has something of
// newer releases, which says more.
func (r *reading) shows(what string, s span) {
	if s.from > r.shown.span.from {
		r.shown = evidence{s, what}
	}
}

// openRecording examines the recording that the command names.
func (d *doctor) openRecording() (Agent, error) {
	if d.recording == "-" {
		return d.record(os.Stdin, "standard input", recording.Meta{})
	}
	file, err := os.Open(d.recording)
	if err != nil {
		return Agent{}, fmt.Errorf("opening the recording: %w", err)
	}
	defer file.Close()
	meta, err := recording.ReadMeta(d.recording)
	if err != nil {
		return Agent{}, err
	}
	return d.record(file, d.recording, meta)
}

// record examines the recorded stream in, which is as upstream sent it, with or without an HTTP
// header in front as curl -i shows it. The error is recording.ErrNothing if nothing of Hermes is
// in it.
func (d *doctor) record(in io.Reader, name string, m recording.Meta) (Agent, error) {
	e := d.newExamination(printable(name), "recording")
	cause, err := recording.ParseCause(m.Cause)
	if err != nil {
		return e.Agent, err
	}
	body, err := recording.Open(in)
	if err != nil {
		return e.Agent, err
	}
	r := newReading(m.Path)
	if err := recording.Pieces(body, r.feed); err != nil {
		return e.Agent, err
	}
	r.finish(cause)
	switch {
	case r.summary == rewrite.Summary{}:
		return e.Agent, recording.ErrNothing
	case r.summary.Chunks == 0:
		e.find("answer", Info, "a stream without a chunk of a chat", "Only streams of /v1/chat/completions reveal much about the release.")
	case r.summary.Code != "":
		e.find("answer", Warn, e.endedIn(r), "")
	default:
		e.find("answer", OK, e.say("a stream of %d chunks, with the finish reason %s", r.summary.Chunks, r.summary.FinishReason), "")
	}
	e.recordShown(r)
	e.conclude()
	return e.Agent, nil
}
