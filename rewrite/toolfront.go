package rewrite

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// toolFront is what the tool events of a stream have in common. It is made once,
// and again when a chunk has changed the envelope.
type toolFront struct {
	fresh bool          // it is that of the envelope as it stands
	event []byte        // one of our own up to the tool's name
	empty jsonspan.Span // the members of a chunk that says nothing, in event; a comma follows
	calls [20]byte      // what ids begin with where upstream has given none
}

// toolFront returns that of the stream as it stands.
func (s *Stream) toolFront() *toolFront {
	e := s.envelope()
	if e.tools == nil {
		e.tools = new(toolFront)
	}
	f := e.tools
	if f.fresh {
		return f
	}
	f.fresh = true
	f.event = append(appendBefore(f.event[:0], s.form), '{')
	if s.envelops() {
		f.empty.From = len(f.event)
		f.event = e.appendEmpty(f.event)
		f.empty.To = len(f.event)
		f.event = append(f.event, ',')
	}
	f.event = append(f.event, `"tool":`...)
	h := sha256.Sum256(e.id())
	hex.Encode(f.calls[:], h[:len(f.calls)/2])
	return f
}

// appendCallID appends the id, as a JSON string, of the tool with the ordinal n in
// the completion, when upstream has given it none: every replica derives the same
// (contract section 2). It is short enough for clients that allow 40 characters.
func (f *toolFront) appendCallID(dst []byte, n int) []byte {
	dst = append(append(dst, `"call_`...), f.calls[:]...)
	for most := 1000; most > max(n, 1); most /= 10 {
		dst = append(dst, '0')
	}
	return append(strconv.AppendInt(dst, int64(n), 10), '"')
}
