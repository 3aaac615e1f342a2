package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A scenario describes a stream. The client puts it into the text of its message, which every
// proxy and gateway hands on. Backend and client generate the same stream from it, so that the
// client knows what must come.
type scenario struct {
	Kind   kind
	Chunks int           // with text
	First  time.Duration // before the first of them
	Every  time.Duration // between two of them
	End    ending
	Flat   bool // all of it leaves as fast as the proxy takes it
	Seed   int  // makes the words of streams differ
}

// A kind says what the chunks are.
type kind string

const (
	clean   kind = "clean"   // words, in the middle of a line
	markers kind = "markers" // the same, with a tool marker every twentieth chunk
	tools   kind = "tools"   // the same, with one every second chunk
	lines   kind = "lines"   // each delta ends in a newline, so that the next could begin a marker
)

// An ending says how the stream ends.
type ending string

const (
	endsWell   ending = "stop"   // a finish chunk and [DONE]
	endsReset  ending = "reset"  // the backend dies: the connection is reset
	endsClosed ending = "closed" // the same, but it is closed, as by a process that ends
	endsEarly  ending = "early"  // the answer ends in order, without finish chunk and [DONE]
	endsCrash  ending = "crash"  // as Hermes 0.8 ends when its agent crashes: stop, and no usage
	endsNever  ending = "never"  // the client has to leave
)

// A question and its answer in a history.
var (
	question = strings.Repeat("what is in the file, and what does it say of its user? ", 4)
	reply    = strings.Repeat("the agent reads a file and writes what it has found there into the answer. ", 12)
)

// request returns the body of the request for the scenario, after so many bytes of history.
func (s scenario) request(history int) []byte {
	var messages []map[string]string
	for ; history > 0; history -= len(question) + len(reply) {
		messages = append(messages, map[string]string{"role": "user", "content": question}, map[string]string{"role": "assistant", "content": reply})
	}
	return encoded(map[string]any{
		"model": "hermes-agent", "stream": true,
		"messages": append(messages, map[string]string{"role": "user", "content": string(encoded(s))}),
	})
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and bools
	}
	return b
}

// marks reports whether the chunk i is a tool marker.
func (s scenario) marks(i int) bool {
	return s.Kind == markers && i%20 == 19 || s.Kind == tools && i%2 == 1
}

// markers returns how many markers the stream has.
func (s scenario) markers() (n int) {
	for i := range s.Chunks {
		if s.marks(i) {
			n++
		}
	}
	return n
}

// The text of a chunk begins with its number and the time it was sent at, in nanoseconds:
// w000017 1795164799123456789 and words.
const (
	timeAt    = len("w000017 ")
	timeWidth = len("1795164799123456789")
)

var words = strings.Fields("the agent reads a file and writes what it has found there into the answer of the user who asked for it")

// text returns the text of the chunk i, with zeros for its time. Frames with it are 250 to 300
// bytes long.
func (s scenario) text(i int) string {
	b := fmt.Appendf(make([]byte, 0, 128), "w%06d %0*d", i, timeWidth, 0)
	for k := s.Seed + i; len(b) < 50+(s.Seed*7+i*13)%28; k++ {
		b = append(append(b, ' '), words[k%len(words)]...)
	}
	if s.Kind == lines {
		return string(append(b, '\n'))
	}
	return string(append(b, ' '))
}

// lead returns what precedes the text of the chunk i: after a marker Hermes begins a paragraph.
func (s scenario) lead(i int) string {
	if i > 0 && s.marks(i-1) {
		return "\n\n"
	}
	return ""
}

// marker returns the text of the marker i.
func (s scenario) marker(i int) string { return "\n`💻 ls -la /tmp/" + strconv.Itoa(i) + "`\n" }

// whole returns the text of the stream, with its markers or without.
func (s scenario) whole(marked bool) string {
	var b strings.Builder
	for i := range s.Chunks {
		if !s.marks(i) {
			b.WriteString(s.lead(i) + s.text(i))
		} else if marked {
			b.WriteString(s.marker(i))
		}
	}
	return b.String()
}

// Frames in the framing of legacy Hermes: Python's json.dumps with its spaces and its escapes,
// see testdata/captures/g0-v0.8.0.
const (
	frameHead  = `data: {"id": "chatcmpl-%029x", "object": "chat.completion.chunk", "created": 1795164814, "model": "hermes-agent", "choices": [{"index": 0, "delta": `
	roleTail   = `{"role": "assistant"}, "finish_reason": null}]}`
	textTail   = `{"content": "%s"}, "finish_reason": null}]}`
	finishTail = `{}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}}`
	crashTail  = `{}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}`
	doneFrame  = "data: [DONE]\n\n"
)

// frames makes the frames of one stream. What its methods return is valid until the next call.
type frames struct {
	scenario
	b []byte
}

func (f *frames) role() []byte { return f.frame(roleTail) }

// chunk returns the frame of the chunk i, which leaves at the time now.
func (f *frames) chunk(i int, now time.Time) []byte {
	if f.marks(i) {
		return f.frame(fmt.Sprintf(textTail, escapes.Replace(f.marker(i))))
	}
	lead := escapes.Replace(f.lead(i))
	b := f.frame(fmt.Sprintf(textTail, lead+escapes.Replace(f.text(i))))
	at := bytes.Index(b, []byte(`"content": "`)) + len(`"content": "`) + len(lead) + timeAt
	copy(b[at:], fmt.Sprintf("%0*d", timeWidth, now.UnixNano()))
	return b
}

// end returns the last frames of a stream that has any.
func (f *frames) end() []byte {
	if f.End == endsCrash {
		return append(f.frame(crashTail), doneFrame...)
	}
	return append(f.frame(finishTail), doneFrame...)
}

func (f *frames) frame(tail string) []byte {
	f.b = append(append(fmt.Appendf(f.b[:0], frameHead, f.Seed), tail...), "\n\n"...)
	return f.b
}

// escapes turns the texts here into what Python's json.dumps has between its quotes.
var escapes = strings.NewReplacer("\n", `\n`, "💻", `\ud83d\udcbb`)
