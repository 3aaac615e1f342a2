package whole

import "bytes"

// likeness is what stands between the contents of two messages, which is the same all
// over a history: the end of one message, and the role of the next. There it is compared
// and not parsed.
//
// What the healer makes of bytes depends on nothing but them and its state. Behind a
// content that is a string, that state is whether the role has been the assistant's so far,
// and at the next content it is the same if what is between has no tool calls, gives no
// message a second content, or a role behind its content, and has no message and no member
// that would stay without the markers.
type likeness struct {
	between [2]between // behind a content of others and of the assistant's
	from    int        // behind the last content, if that is a string, or 0
	ended   int        // where the last message ends
	behind  bool       // that was the assistant's
}

// between is what was between two contents.
type between struct {
	bytes     []byte // from behind the quote of one to the quote of the other
	end       int    // where the first message ends in them
	start     int    // where the second message begins in them
	assistant bool   // that is the assistant's
}

// contents reads the content at Pos, a string, and those of the messages behind it as long
// as between them there are bytes that have been read before.
func (h *healer) contents() {
	h.learn()
	for {
		h.text()
		h.said = true
		if h.again {
			h.forget()
			return
		}
		h.from, h.behind = h.Pos, h.assistant
		b := *h.next()
		if len(b.bytes) == 0 || !bytes.HasPrefix(h.Data[h.Pos:], b.bytes) {
			return
		}
		h.end(h.Pos + b.end)
		h.begin()
		h.start.Pos = h.Pos + b.start
		h.assistant = b.assistant
		h.Pos += len(b.bytes) - 1
		if h.checks { // then the text before has been, and otherwise nothing has
			h.utf8 = max(h.utf8, h.Pos)
		}
	}
}

// next is what was last between the content before and the one behind it.
func (h *healer) next() *between {
	if h.behind {
		return &h.between[1]
	}
	return &h.between[0]
}

// learn remembers what has been read between the content before and the one at Pos.
func (h *healer) learn() {
	if h.from > 0 && !h.said {
		*h.next() = between{h.Data[h.from : h.Pos+1], h.ended - h.from, h.start.Pos - h.from, h.assistant}
	}
}

// forget makes sure that nothing is learned of what is being read.
func (h *healer) forget() { h.from = 0 }
