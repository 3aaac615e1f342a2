package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Answer returns a whole stream of the sidecar's own that says the text. It has no usage: nothing
// was used.
func Answer(p *contract.Params, text string) []byte {
	var out sse.Writer
	w := encode.NewWriter(&out, &contract.Options{}, p)
	w.Begin()
	w.Delta(&chunk.Object{}, false, &prose.Kept{Text: jsonspan.Inside(jsonspan.Quote(text))})
	w.Stop()
	w.Done()
	return out.Take()
}

// Keepalive returns the keepalive of a stream that has not begun (contract section 3). Its envelope is
// that of the sidecar's own frames.
func Keepalive(o *contract.Options, p *contract.Params) []byte {
	var out sse.Writer
	w := encode.NewWriter(&out, o, p)
	w.Env = w.EnvelopeOf(new(chunk.Object))
	w.Keepalive()
	return out.Take()
}

// Refusal returns the only frame of a stream whose request got an error, the JSON object on one
// line, instead of an answer: a finish chunk with the error inside it, as modern Hermes reports
// one. Frame makes an error finish of it (contract section 3).
func Refusal(o *contract.Options, p *contract.Params, object []byte) []byte {
	w := encode.NewWriter(new(sse.Writer), o, p)
	return w.Refusal(object)
}
