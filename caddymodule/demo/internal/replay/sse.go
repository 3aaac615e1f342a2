package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxFrame is the size in bytes of the largest frame that a Decoder reads.
const maxFrame = 16 << 20

// A Frame is one block of an event stream: the lines up to and including a
// blank one.
type Frame struct {
	// Raw are the bytes as they arrived. The Raw of all frames together are
	// the stream.
	Raw []byte
	// Name is the value of the last event field, "" for none.
	Name string
	// Data are the data fields, joined by line feeds.
	Data string
	// HasData says that there was a data field: without one the frame is no
	// event, only comments or nothing.
	HasData bool
	// Torn says that the stream ended inside the frame. A client has to drop
	// it.
	Torn bool
}

// A Decoder cuts an event stream into frames as the WHATWG standard does it:
// lines end in LF, CR or CRLF, data fields add up, a byte order mark at the
// beginning does not count.
type Decoder struct {
	r      *bufio.Reader
	begun  bool  // the byte order mark has been looked for
	skipLF bool  // the last line ended in CR: an LF belongs to it
	err    error // what ended the stream, returned after a torn frame
}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: bufio.NewReader(r)}
}

// Next returns the next frame as soon as its blank line is there. At the end
// of the stream it returns what is left as a torn frame, if anything is, and
// from then on the reader's error: io.EOF when the stream ended cleanly.
func (d *Decoder) Next() (Frame, error) {
	if d.err != nil {
		return Frame{}, d.err
	}
	var f Frame
	var data []string
	for {
		line, err := d.line(&f)
		if err != nil {
			d.err = err
			if len(bytes.Trim(f.Raw, "\n")) == 0 {
				return Frame{}, err
			}
			f.Torn = true
			break
		}
		if len(line) == 0 {
			break
		}
		switch name, value := field(line); name {
		case "event":
			f.Name = value
		case "data":
			data = append(data, value)
		}
	}
	f.HasData = len(data) > 0
	f.Data = strings.Join(data, "\n")
	return f, nil
}

// line reads one line, appends its bytes to the frame and returns it without
// its end.
func (d *Decoder) line(f *Frame) ([]byte, error) {
	start := len(f.Raw)
	for {
		b, err := d.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if len(f.Raw) == maxFrame {
			return nil, fmt.Errorf("event larger than %d bytes", maxFrame)
		}
		f.Raw = append(f.Raw, b)
		if b == '\n' && d.skipLF && len(f.Raw) == start+1 {
			d.skipLF = false
			start = len(f.Raw)
			continue
		}
		d.skipLF = b == '\r'
		if b != '\n' && b != '\r' {
			continue
		}
		line := f.Raw[start : len(f.Raw)-1]
		// An LF that is here already belongs to this line; waiting for one
		// would hold the frame back.
		if b == '\r' && d.r.Buffered() > 0 {
			if next, err := d.r.Peek(1); err == nil && next[0] == '\n' {
				d.r.Discard(1)
				f.Raw = append(f.Raw, '\n')
				d.skipLF = false
			}
		}
		if !d.begun {
			d.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		return line, nil
	}
}

// field splits a line at its first colon and drops one space after it. The
// name of a comment is "".
func field(line []byte) (name, value string) {
	name, value, _ = strings.Cut(string(line), ":")
	return name, strings.TrimPrefix(value, " ")
}
