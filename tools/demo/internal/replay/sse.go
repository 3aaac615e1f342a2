package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// maxFrame is the size in bytes of the largest frame that is read.
const maxFrame = 16 << 20

// A Frame is a piece of an event stream: an event, or what stands between two.
type Frame struct {
	Raw     []byte // as they arrived: those of all frames together are the stream
	Name    string // the value of the last event field, "" for none
	Data    string // the data fields, joined by line feeds
	HasData bool   // without a data field it is no event, only comments or nothing
	Torn    bool   // the stream ended inside it: a client has to drop it
}

// readFrames hands each frame of the stream r to each as soon as it is whole. What is
// left at the end of the stream is a torn frame. It returns nil if the stream ended
// cleanly, else the error of r.
func readFrames(r io.Reader, each func(Frame)) error {
	s := sse.Scanner{MaxFrame: maxFrame}
	var parsed sse.Frame
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		s.Feed(buf[:n])
		for unit, raw, ok := s.Next(); ok; unit, raw, ok = s.Next() {
			f := Frame{Raw: bytes.Clone(raw)}
			switch unit {
			case sse.UnitRaw:
				return fmt.Errorf("event larger than %d bytes", maxFrame)
			case sse.UnitFrame:
				parsed.Parse(f.Raw)
				f.Name, f.Data, f.HasData = string(parsed.Event), string(parsed.Data), parsed.HasData
			}
			each(f)
		}
		s.Rest()
		if err == nil {
			continue
		}
		if torn := s.Tail(); len(torn) > 0 {
			each(Frame{Raw: bytes.Clone(torn), Torn: true})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}
