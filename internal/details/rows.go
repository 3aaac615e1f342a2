package details

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Bounds of an answer.
const (
	// maxPage is how many bytes are read. Hermes 0.19 sends all that a session has ever had.
	maxPage = 4 << 20
	// maxRow is the size in bytes of the largest row that is read.
	maxRow = 1 << 20
	// maxAround is how many bytes there may be beside the rows.
	maxAround = 64 << 10
	// maxRowDepth is how deep a row may be nested.
	maxRowDepth = 128
)

// rows reads an answer piece by piece, and keeps what its rows say of tool calls. It holds one row at a time.
type rows struct {
	asked string // the session
	page  page
	err   error

	n        int    // bytes so far
	envelope []byte // all but the rows, of which at most two in a row are there, as 0
	row      []byte
	large    bool // the row is larger than maxRow

	depth             int
	inData, inRow     bool
	inString, escaped bool
}

func newRows(session string, began float64) *rows {
	return &rows{asked: session, page: page{began: began}}
}

// Write implements io.Writer.
func (r *rows) Write(b []byte) (int, error) {
	if r.n += len(b); r.n > maxPage && r.err == nil {
		r.err = errTooLarge
	}
	for i := 0; i < len(b) && r.err == nil; {
		i += r.take(b[i:])
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(b), nil
}

// take reads the beginning of b, and returns how much that is.
func (r *rows) take(b []byte) int {
	c := b[0]
	if r.inString {
		n := 1
		switch {
		case r.escaped:
			r.escaped = false
		case c == '\\':
			r.escaped = true
		case c == '"':
			r.inString = false
		default: // texts are long
			if n = bytes.IndexAny(b, `"\`); n < 0 {
				n = len(b)
			}
		}
		r.keep(b[:n])
		return n
	}
	switch c {
	case '"':
		r.inString = true
	case '{', '[':
		r.open(c)
	case '}', ']':
		r.keep(b[:1])
		r.shut()
		return 1
	}
	r.keep(b[:1])
	return 1
}

// open enters an object or an array.
func (r *rows) open(c byte) {
	if r.depth == 1 {
		before := bytes.TrimRight(r.envelope, " \t\r\n")
		before, named := bytes.CutSuffix(before, []byte(":"))
		r.inData = c == '[' && named && bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(`"data"`))
	}
	if r.depth == 2 && r.inData && c == '{' {
		r.inRow = true
	}
	if r.depth++; r.depth > maxRowDepth {
		r.err = errShape
	}
}

// shut leaves one, which may be a row.
func (r *rows) shut() {
	r.depth--
	if !r.inRow || r.depth != 2 {
		return
	}
	r.inRow = false
	if !r.afterRows() {
		r.envelope = append(r.envelope, '0')
	}
	if r.large {
		r.page.partial = true
	} else {
		r.page.add(r.row, r.asked)
	}
	r.row, r.large = r.row[:0], false
}

// afterRows reports whether more than one row is before.
func (r *rows) afterRows() bool { return bytes.HasSuffix(r.envelope, []byte(",0")) }

// keep keeps b, which is part of a row or of the envelope.
func (r *rows) keep(b []byte) {
	switch {
	case !r.inRow && r.inData && r.depth == 2 && (len(bytes.TrimSpace(b)) == 0 || b[0] == ',' && r.afterRows()):
	case !r.inRow:
		r.envelope = append(r.envelope, b...)
		if len(r.envelope) > maxAround {
			r.err = errShape
		}
	case r.large || len(r.row)+len(b) > maxRow:
		r.row, r.large = nil, true
	default:
		r.row = append(r.row, b...)
	}
}

// end returns what the rows say, once the answer was read whole.
func (r *rows) end() (page, error) {
	all := rewrite.Finite(r.envelope)
	session := gjson.GetBytes(all, "session_id")
	if !gjson.ValidBytes(all) || gjson.GetBytes(all, "object").String() != "list" || session.Type != gjson.String || !gjson.GetBytes(all, "data").IsArray() {
		return page{}, errShape
	}
	r.page.foreign = session.String() != r.asked
	return r.page, nil
}
