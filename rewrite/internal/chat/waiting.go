package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
)

// StatusEvent is the name of the event that tells Hermes' state.
const StatusEvent = encode.StatusEvent

// Refusal returns the only frame of a stream whose request got an error, the JSON object on one
// line, instead of an answer: a finish chunk with the error inside it, as modern Hermes reports
// one. Frame makes an error finish of it (contract section 3).
func (s *Stream) Refusal(object []byte) []byte { return s.w.Refusal(object) }

// Idle writes the keepalive of a stream in which no chunk has come, and none is on its way. Its
// envelope is that of the sidecar's own frames.
func (s *Stream) Idle() {
	s.w.Env = s.w.EnvelopeOf(new(chunk.Object))
	s.Keepalive()
}
