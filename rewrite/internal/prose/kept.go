package prose

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// Kept is what is left of a text: Front, and then a span of the text without the cuts.
type Kept struct {
	jsonspan.Span
	Cuts  []jsonspan.Span
	Front []byte
}

// NewlineInJSON and BreakInJSON are a newline and a paragraph break, inside a JSON
// string.
var NewlineInJSON, BreakInJSON = []byte(`\n`), []byte(`\n\n`)

// Len returns how many bytes are left.
func (k *Kept) Len() int {
	n := len(k.Front) + k.To - k.From
	for _, c := range k.Cuts {
		n -= c.To - c.From
	}
	return n
}

// AppendTo appends what is left of the text in data to dst.
func (k *Kept) AppendTo(dst, data []byte) []byte {
	dst = append(dst, k.Front...)
	at := k.From
	for _, c := range k.Cuts {
		dst = append(dst, data[at:c.From]...)
		at = c.To
	}
	return append(dst, data[at:k.To]...)
}

// first returns the position of the first byte of the text that is left.
func (k *Kept) first() int {
	at := k.From
	for _, c := range k.Cuts {
		if c.From > at {
			break
		}
		at = c.To
	}
	return at
}
