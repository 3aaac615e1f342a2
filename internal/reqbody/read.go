package reqbody

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// Read reads a body of length bytes, -1 for unknown, to its end, which is the error io.EOF.
// Any other error is the body's. It stops without an error after limit bytes and one more. It
// allocates little more than has come, whatever the client announces.
func Read(body io.Reader, length, limit int64) ([]byte, error) {
	limit = min(limit, math.MaxInt64-1)
	if length < 0 {
		b, err := io.ReadAll(io.LimitReader(body, limit+1))
		if err == nil && int64(len(b)) <= limit {
			err = io.EOF
		}
		return b, err
	}
	b := make([]byte, 0, min(length, maxFirst, limit)+1) // one more, to see the end without growing
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil || int64(len(b)) > limit {
			return b, err
		}
		if came := int64(len(b)); len(b) == cap(b) {
			size := 2 * came
			if came <= length && came >= length/advance {
				size = length + 1
			}
			b = append(make([]byte, 0, min(size, limit+1)), b...)
		}
	}
}

const (
	// maxFirst is the size in bytes up to which the first buffer has the length that the
	// client announces.
	maxFirst = 64 << 10
	// advance is how many times as much as has come a client may have allocated by
	// announcing it.
	advance = 8
)

// errNoObject says that a body does not begin like a JSON object.
var errNoObject = errors.New("the body is no JSON object")

// objectReader reads a body, and fails with errNoObject as soon as that is not a JSON object,
// so that protocols whose requests are answered while they are sent go on working.
type objectReader struct {
	io.Reader
	begun bool
}

func (r *objectReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if r.begun {
		return n, err
	}
	text := bytes.TrimLeft(b[:n], " \t\r\n")
	if r.begun = len(text) > 0; r.begun && text[0] != '{' && err == nil {
		err = errNoObject
	}
	return n, err
}
