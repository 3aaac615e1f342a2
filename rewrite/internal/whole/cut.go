package whole

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// cut takes Data[from:to] out of the body. Cuts come in order. Before the first one of a
// message, all that stays if the message leaves is copied: see leave.
func (h *healer) cut(from, to int) {
	if h.out == nil {
		h.out = make([]byte, 0, len(h.Data))
	}
	if h.inPlace { // which is overwritten
		h.between = [2]between{}
	}
	if !h.cuts {
		start := h.before // the comma goes, too
		if start == 0 {
			start = h.start.Pos
		}
		start = max(start, h.at)
		h.out = append(h.out, h.Data[h.at:start]...)
		h.cuts, h.kept, h.at = true, len(h.out), start
	}
	h.out = append(h.out, h.Data[h.at:from]...)
	h.at = to
}

// leave takes the current message, which ends at to, out of the body, with the comma
// before it or, if no element before it is left, behind it. Nothing but marker lines was
// in it, and providers refuse an empty message (contract section 5).
func (h *healer) leave(to int) {
	h.out = h.out[:h.kept]
	if next, ok := elementAt(h.Data, to); ok && h.before == 0 {
		to = next
	}
	h.at = to
}

// outputAt reports whether a tool's message is behind the message in b that ends at to.
// That message does not leave then: the output would answer the call of another.
func outputAt(b []byte, to int) (isTool bool) {
	next, ok := elementAt(b, to)
	if !ok || next == len(b) {
		return false
	}
	for name, value := range jsonspan.Members(b, jsonspan.Span{From: next, To: len(b)}) {
		if jsonspan.Spells(name.Of(b), "role") {
			isTool = value.IsString(b) && jsonspan.Spells(value.Inner().Of(b), "tool")
		}
	}
	return isTool
}

// elementAt returns where the element of a list in b begins that is behind the one that
// ends at to. It returns false if there is none.
func elementAt(b []byte, to int) (next int, ok bool) {
	next = jsonspan.SkipSpace(b, to)
	if next == len(b) || b[next] != ',' {
		return to, false
	}
	return jsonspan.SkipSpace(b, next+1), true
}
