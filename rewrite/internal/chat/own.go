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

// HasStatusLine reports whether upstream's state becomes a status line in a stream with the parameters p.
func HasStatusLine(o *contract.Options, p *contract.Params) bool {
	return p.Active && !o.NoStatusLine && o.ProgressForm(p).Envelops()
}

// HiddenStatus returns a status that Open WebUI hides.
func HiddenStatus(description string) []byte { return encode.HiddenStatus(description) }

// HideStatus returns a chunk that hides the status line of a stream that has not begun, nil if it has none.
func HideStatus(o *contract.Options, p *contract.Params) []byte {
	if !HasStatusLine(o, p) {
		return nil
	}
	with := *p
	with.Progress = o.ProgressForm(p)
	var out sse.Writer
	w := encode.NewWriter(&out, o, &with)
	w.Hide("Waiting in line")
	return out.Take()
}

// Refusal returns the only frame of a stream whose request got an error, the JSON object on one
// line, instead of an answer: a finish chunk with the error inside it, as modern Hermes reports
// one. Frame makes an error finish of it (contract section 3).
func Refusal(o *contract.Options, p *contract.Params, object []byte) []byte {
	w := encode.NewWriter(new(sse.Writer), o, p)
	return w.Refusal(object)
}
