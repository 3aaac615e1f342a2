package whole

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/record"
)

// copier copies JSON without the parts that are cut. Cuts must be made in order.
type copier struct {
	b   []byte
	out []byte // the copy so far
	at  int    // b[:at] is in out, without the cuts
}

// cut copies b up to from, and takes b[from:to] out.
func (c *copier) cut(from, to int) {
	if cap(c.out) < len(c.b) {
		c.out = make([]byte, 0, len(c.b)+record.MaxRecords) // Recall may add records to it
	}
	if from > c.at { // the bytes before it may have gone
		c.out = append(c.out, c.b[c.at:from]...)
	}
	c.at = to
}

// cutElement takes out the member or element b[from:to], with the comma before it or, if it
// is the first, after it. before is where the one before it ends, 0 if there is none.
func (c *copier) cutElement(before, from, to int) {
	if before > 0 {
		from = before
	} else if next := jsonspan.SkipSpace(c.b, to); c.b[next] == ',' {
		to = jsonspan.SkipSpace(c.b, next+1)
	}
	c.cut(from, to)
}

// rest copies the rest, and returns the copy, or b if nothing was cut.
func (c *copier) rest() []byte {
	if c.at == 0 {
		return c.b
	}
	return append(c.out, c.b[c.at:]...)
}
