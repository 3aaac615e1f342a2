package whole

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// minGlance is the size in bytes from which on Heal glances at a body. A smaller one is
// read in the time of a system call.
const minGlance = 4 << 10

// glance reports whether body asks for a stream and has no cards, if it is JSON at all, and
// returns what else it asks for. It reads only what stands before the messages and behind
// them, and errs only by returning false.
//
// The messages end at the first bracket that may end them: what follows is read to the end
// of the body, is well formed and closes the outermost object. In JSON that bracket is in
// no string then, because an odd number of quotes would follow one that is. Nor is it
// nested deeper, because more would have to be closed. And an array that ends before it is
// followed by no member, and its last element is no object: it has no cards, and does not
// end the messages before another member stream.
func glance(body []byte) (healed Healed, ok bool) {
	h := healer{Reader: jsonspan.Reader{Data: body}}
	h.Pos = jsonspan.SkipSpace(body, 0)
	if !h.At('{') {
		return healed, false
	}
	for h.Open(); ; {
		key, ok := h.Member()
		if !ok {
			return h.healed, h.AtEnd() && h.checks && h.healed.Asked == AskedStream
		}
		switch name := h.name(key); string(name) {
		case "messages":
			end := listEnd(body, h.Pos)
			if h.checks || end < 0 || !h.At('[') {
				return healed, false
			}
			h.Pos, h.checks = end, true
		case "stream":
			h.healed.Asked = h.stream()
		default:
			h.other(name)
		}
	}
}

// listEnd returns the index behind the first bracket in b[from:] that may end an array whose
// last element is an object, or that a member follows. It returns -1 if there is none.
func listEnd(b []byte, from int) int {
	for i := from; ; i++ {
		n := bytes.IndexByte(b[i:], ']')
		if n < 0 {
			return -1
		}
		i += n
		next := jsonspan.SkipSpace(b, i+1)
		if next == len(b) {
			return -1
		}
		switch b[next] {
		case ',':
			if next = jsonspan.SkipSpace(b, next+1); next < len(b) && b[next] == '"' {
				return i + 1
			}
		case '}', ']':
		default:
			continue
		}
		before := bytes.TrimRight(b[from:i], " \t\r\n")
		if bytes.HasSuffix(before, []byte("}")) {
			return i + 1
		}
	}
}
