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
		h.copyTo(max(start, h.at))
		h.cuts, h.kept = true, len(h.out)
	}
	h.copyTo(from)
	h.at = to
}

// copyTo copies the body up to the index to.
func (h *healer) copyTo(to int) {
	h.out = append(h.out, h.Data[h.at:to]...)
	h.at = to
}

// leave takes the current message, which ends at to, out of the body, with the comma
// before it or, if no element before it is left, behind it. Nothing but marker lines was
// in it, and providers refuse an empty message (contract section 5).
func (h *healer) leave(to int) {
	h.out = h.out[:h.kept]
	if next, ok := h.elementAt(to); ok && h.before == 0 {
		to = next
	}
	h.at = to
}

// outputAt reports whether a tool's message is behind the message that ends at to. That
// message does not leave then: the output would answer the call of another.
func (h *healer) outputAt(to int) bool {
	next, ok := h.elementAt(to)
	if !ok {
		return false
	}
	isTool := false
	for name, value := range jsonspan.Members(h.Data, jsonspan.Span{From: next, To: len(h.Data)}) {
		if string(h.name(name)) == "role" {
			isTool = value.IsString(h.Data) && jsonspan.Spells(value.Inner().Of(h.Data), "tool")
		}
	}
	return isTool
}

// elementAt returns where the element behind the one that ends at to begins. It returns
// false if there is none.
func (h *healer) elementAt(to int) (next int, ok bool) {
	next = jsonspan.SkipSpace(h.Data, to)
	if next == len(h.Data) || h.Data[next] != ',' {
		return to, false
	}
	return jsonspan.SkipSpace(h.Data, next+1), true
}
