package agentapi

import (
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// numbers are the next numbers of a stream's events: that of the id field, and that of a
// member. Upstream may count by either, or not at all.
type numbers struct {
	id, seq       int64
	hasID, hasSeq bool // upstream counts so
}

// count remembers the numbers of the frame f, whose member is seq.
func (n *numbers) count(f *sse.Frame, seq []byte) {
	if id := jsonspan.SmallInt(f.ID); id >= 0 {
		n.id, n.hasID = max(n.id, id+1), true
	}
	if number := jsonspan.SmallInt(seq); number >= 0 {
		n.seq, n.hasSeq = max(n.seq, number+1), true
	}
}

// skip counts an event whose numbers are not known.
func (n *numbers) skip() {
	n.id++
	n.seq++
}

// appendID appends the id field of an event of ours.
func (n *numbers) appendID(dst []byte) []byte {
	if !n.hasID {
		return dst
	}
	n.id++
	return fmt.Appendf(dst, "id: %d\n", n.id-1)
}

// appendSeq appends before, which ends with the name of a member, and the number of an
// event of ours.
func (n *numbers) appendSeq(dst []byte, before string) []byte {
	if !n.hasSeq {
		return dst
	}
	n.seq++
	return fmt.Appendf(append(dst, before...), "%d", n.seq-1)
}
