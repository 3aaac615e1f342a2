package reqbody

import (
	"bytes"
	"io"
)

// Read reads a body of length bytes, -1 for unknown, to its end, which is the
// error io.EOF. Any other error is the body's. It stops without an error after
// more than limit bytes. One byte more than limit may come with the end. It
// allocates little more than has come, whatever the client announces.
func Read(body io.Reader, length, limit int64) ([]byte, error) {
	return read(body, length, limit, false)
}

// read is Read, which stops as well, if objects says so, when the body is no JSON
// object, so that protocols whose requests are answered while they are sent go on
// working.
func read(body io.Reader, length, limit int64, objects bool) ([]byte, error) {
	first := int64(minBody)
	if length >= 0 {
		first = min(length+1, maxFirst) // one more, to see the end without growing
	}
	b := make([]byte, 0, min(first, limit+1))
	var parts [][]byte // of unknown length: the bytes before b
	var err error
	for begun, came := !objects, int64(0); err == nil && came <= limit; {
		switch {
		case len(b) < cap(b):
		case length >= 0:
			b = grow(b, length, limit)
		default:
			parts = append(parts, b)
			b = make([]byte, 0, min(came, maxFirst, limit+1-came))
		}
		var n int
		n, err = body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		came += int64(n)
		if begun {
			continue
		}
		text := bytes.TrimLeft(b[len(b)-n:], " \t\r\n")
		if begun = len(text) > 0; begun && text[0] != '{' {
			break
		}
	}
	if parts == nil {
		return b, err
	}
	return bytes.Join(append(parts, b), nil), err
}

const (
	// minBody is the size in bytes of the first buffer for a body of unknown length.
	minBody = 4 << 10
	// maxFirst is the size in bytes up to which the first buffer has the length
	// that the client announces, and the larger parts of a body of unknown length.
	maxFirst = 64 << 10
	// advance is how many times as much as has come a client may have allocated
	// by announcing it.
	advance = 8
)

// grow returns b, which is full, with more room: twice as much, or all that was
// announced once enough of it has come, but at most one byte more than limit.
func grow(b []byte, length, limit int64) []byte {
	size := int64(cap(b)) * 2
	if all := length + 1; int64(cap(b)) < all && int64(cap(b)) >= all/advance {
		size = all
	}
	return append(make([]byte, 0, min(size, limit+1)), b...)
}
