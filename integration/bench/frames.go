package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Frames in the framing of legacy Hermes: Python's json.dumps with its spaces and
// its escapes, see testdata/captures/g0-v0.8.0.
const (
	frameHead  = `data: {"id": "%s", "object": "chat.completion.chunk", "created": 1795164814, "model": "hermes-agent", "choices": [{"index": 0, "delta": `
	roleTail   = `{"role": "assistant"}, "finish_reason": null}]}`
	textTail   = `{"content": "%s"}, "finish_reason": null}]}`
	finishTail = `{}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}}`
	crashTail  = `{}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}`
	doneFrame  = "data: [DONE]\n\n"
	frameEnd   = "\n\n"
)

// frames makes the frames of one stream.
type frames struct {
	s  scenario
	id string
	b  []byte
}

func newFrames(s scenario) *frames {
	return &frames{s: s, id: fmt.Sprintf("chatcmpl-%029x", s.seed)}
}

func (f *frames) role() []byte { return f.frame(roleTail) }

// chunk returns the frame of the chunk i, which leaves at the time now. It stays
// valid until the next.
func (f *frames) chunk(i int, now time.Time) []byte {
	if f.s.marks(i) {
		return f.frame(fmt.Sprintf(textTail, python.Replace(f.s.marker(i))))
	}
	lead := python.Replace(f.s.lead(i))
	b := f.frame(fmt.Sprintf(textTail, lead+python.Replace(f.s.text(i))))
	at := bytes.Index(b, []byte(`"content": "`)) + len(`"content": "`) + len(lead) + timeAt
	copy(b[at:], fmt.Sprintf("%0*d", timeWidth, now.UnixNano()))
	return b
}

// end returns the last frames of a stream that has any.
func (f *frames) end() []byte {
	tail := finishTail
	if f.s.end == endsCrash {
		tail = crashTail
	}
	return append(f.frame(tail), doneFrame...)
}

func (f *frames) frame(tail string) []byte {
	f.b = append(append(fmt.Appendf(f.b[:0], frameHead, f.id), tail...), frameEnd...)
	return f.b
}

// python turns the texts here into what Python's json.dumps has between its quotes.
var python = strings.NewReplacer("\n", `\n`, "💻", `\ud83d\udcbb`)
