package reqbody

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// Read reads body, which announces length bytes, -1 for unknown, to its end, and then returns
// io.EOF. Any other error is that of body. Read stops without an error after limit+1 bytes. It
// allocates little more than it has read, whatever the client announces.
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
	// maxFirst is the size in bytes up to which the first buffer has the announced length.
	maxFirst = 64 << 10
	// advance is the factor by which a buffer of the announced length may exceed the bytes that
	// have been read.
	advance = 8
)

// errNoObject says that a body does not begin like a JSON object.
var errNoObject = errors.New("the body is not a JSON object")

// objectReader reads a body, and fails with errNoObject as soon as the body turns out not to be a
// JSON object, so that protocols that answer a request while it is sent keep working.
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
