package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// scenario is what a client asks the scripted upstream for, in the text of its
// message, which every proxy and gateway hands on. Both sides generate the same
// stream from it, so that the client knows what it must be sent.
type scenario struct {
	kind   kind
	chunks int           // with text
	first  time.Duration // before the first of them
	every  time.Duration // between two of them
	end    ending
	flat   bool // all of it leaves as fast as the proxy takes it
	seed   int  // makes the words of streams differ

	history int // bytes of questions and answers that stand before the message, for the upstream to skip
}

// kind says what the chunks are.
type kind string

const (
	clean   kind = "clean"   // words, in the middle of a line
	markers kind = "markers" // the same, with a tool marker every twentieth chunk
	tools   kind = "tools"   // the same, with one every second chunk
	lines   kind = "lines"   // each delta ends in a newline, so that the next could begin a marker
)

// ending says how the stream ends.
type ending string

const (
	endsWell   ending = "stop"   // a finish chunk and [DONE]
	endsReset  ending = "reset"  // the backend dies: the connection is reset
	endsClosed ending = "closed" // the same, but it is closed, as by a process that ends
	endsEarly  ending = "early"  // the answer ends in order, without finish chunk and [DONE]
	endsCrash  ending = "crash"  // as Hermes 0.8 ends when its agent crashes: stop, and no usage
	endsNever  ending = "never"  // the client has to leave
)

func (s scenario) String() string {
	return url.Values{
		"kind": {string(s.kind)}, "chunks": {strconv.Itoa(s.chunks)}, "first": {s.first.String()}, "every": {s.every.String()},
		"end": {string(s.end)}, "flat": {strconv.FormatBool(s.flat)}, "seed": {strconv.Itoa(s.seed)},
	}.Encode()
}

// parseScenario reads what String wrote.
func parseScenario(text string) (scenario, error) {
	v, err := url.ParseQuery(text)
	if err != nil {
		return scenario{}, fmt.Errorf("the message is no scenario: %w", err)
	}
	s := scenario{kind: kind(v.Get("kind")), end: ending(v.Get("end"))}
	if s.chunks, err = strconv.Atoi(v.Get("chunks")); err != nil {
		return scenario{}, fmt.Errorf("chunks: %w", err)
	}
	if s.first, err = time.ParseDuration(v.Get("first")); err != nil {
		return scenario{}, fmt.Errorf("first: %w", err)
	}
	if s.every, err = time.ParseDuration(v.Get("every")); err != nil {
		return scenario{}, fmt.Errorf("every: %w", err)
	}
	if s.flat, err = strconv.ParseBool(v.Get("flat")); err != nil {
		return scenario{}, fmt.Errorf("flat: %w", err)
	}
	if s.seed, err = strconv.Atoi(v.Get("seed")); err != nil {
		return scenario{}, fmt.Errorf("seed: %w", err)
	}
	return s, nil
}

// A question and its answer in a history.
var (
	question = strings.Repeat("what is in the file, and what does it say of its user? ", 4)
	reply    = strings.Repeat("the agent reads a file and writes what it has found there into the answer. ", 12)
)

// request returns the body of the request for the scenario.
func (s scenario) request(model string) []byte {
	var messages []map[string]string
	for left := s.history; left > 0; left -= len(question) + len(reply) {
		messages = append(messages, map[string]string{"role": "user", "content": question}, map[string]string{"role": "assistant", "content": reply})
	}
	b, err := json.Marshal(map[string]any{
		"model": model, "stream": true,
		"messages": append(messages, map[string]string{"role": "user", "content": s.String()}),
	})
	if err != nil {
		panic(err) // of strings and a bool
	}
	return b
}

// marks reports whether the chunk i is a tool marker.
func (s scenario) marks(i int) bool {
	return s.kind == markers && i%20 == 19 || s.kind == tools && i%2 == 1
}

// The text of a chunk begins with its number and the time it was sent at, in
// nanoseconds: w000017 1795164799123456789 and words.
const (
	numberAt  = len("w")
	timeAt    = len("w000017 ")
	timeWidth = len("1795164799123456789")
	wordsAt   = timeAt + timeWidth
)

var words = strings.Fields("the agent reads a file and writes what it has found there into the answer of the user who asked for it")

// text returns the text of the chunk i, with zeros for its time. Frames with it
// are 250 to 300 bytes long.
func (s scenario) text(i int) string {
	b := fmt.Appendf(make([]byte, 0, 128), "w%06d %0*d", i, timeWidth, 0)
	for k := s.seed + i; len(b) < 50+(s.seed*7+i*13)%28; k++ {
		b = append(append(b, ' '), words[k%len(words)]...)
	}
	if s.kind == lines {
		return string(append(b, '\n'))
	}
	return string(append(b, ' '))
}

// lead returns what stands before the text of the chunk i: behind a marker Hermes
// begins a paragraph.
func (s scenario) lead(i int) string {
	if i > 0 && s.marks(i-1) {
		return "\n\n"
	}
	return ""
}

// label returns the label of the marker i.
func (s scenario) label(i int) string { return "ls -la /tmp/" + strconv.Itoa(i) }

// marker returns the text of the marker i.
func (s scenario) marker(i int) string { return "\n`💻 " + s.label(i) + "`\n" }
