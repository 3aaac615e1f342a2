package resume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// lastSeq is the query by which a client names the last event of a run that it has, as
// Last-Event-ID does. Hermes has it since 0.22.
const lastSeq = "last_seq"

// seen is the last event of a plain log that a client has.
type seen struct {
	id uint64
	ok bool // there is one
}

// seenBy returns what the client of r says that it has. What is no number says nothing.
func seenBy(r *http.Request) seen {
	id := plainID([]byte(r.Header.Get(LastEventHeader)))
	if id == 0 {
		id = plainID([]byte(r.URL.Query().Get(lastSeq)))
	}
	return seen{id - 1, id > 0}
}

// follow answers r with the events of the plain log with the id that the client has not seen,
// and those that are still to come. If it returns a problem, it has not answered.
func (s seen) follow(o *Options, w http.ResponseWriter, r *http.Request, id string) error {
	n, over, err := s.place(o.Store, id)
	if err != nil {
		return problemOf(err)
	}
	if over {
		// So that an EventSource, which takes every end for a failure, stops.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return follow(o, w, r, repeat{reader: s.skip(o.Store.Read(r.Context(), id, n)), continues: s.ok})
}

// place returns the number in the log of an event that is not after the last one seen, 0 for none,
// and whether the log is whole and has nothing after that. If nothing was seen, it begins with the
// oldest event that is there. If events after the last one seen were deleted, the error is a
// *GoneError.
func (s seen) place(store Store, id string) (n uint64, over bool, err error) {
	done, cancel := context.WithCancel(context.Background())
	cancel() // only what is there
	reader, n, err := oldest(done, store, id)
	defer reader.Close()
	var lines plainLines
	for first, deleted := true, n > 0; s.ok && err == nil; {
		var part Part
		part, err = reader.Next()
		lines.feed(part.Data)
		for l, ok := lines.next(); ok; l, ok = lines.next() {
			switch {
			case !l.endsEvent:
			case l.id > s.id && first && deleted && l.id > s.id+1:
				return 0, false, &GoneError{l.id}
			case l.id > s.id:
				return n, false, nil
			default:
				n++
				first = false
			}
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return n, s.ok, nil
	case err == nil, errors.Is(err, ErrBroken), errors.Is(err, done.Err()):
		return n, false, nil
	}
	return 0, false, err
}

// skip returns a reader that leaves out the events that were seen.
func (s seen) skip(r Reader) Reader {
	if !s.ok {
		return r
	}
	return &skipper{Reader: r, seen: s.id}
}

// skipper is a reader of a plain log that leaves out events. It holds back the event under way
// until its number has come, and comments never.
type skipper struct {
	Reader
	seen  uint64 // the number of the last event that is left out
	found bool   // all that were seen have been left out
	lines plainLines
	held  []byte // of the event under way
	out   []byte
}

func (s *skipper) Next() (Part, error) {
	part, err := s.Reader.Next()
	if s.found || err != nil || part.Header != nil {
		return part, err
	}
	return Part{Data: s.skip(part.Data)}, nil
}

// skip returns what leaves when b comes.
func (s *skipper) skip(b []byte) []byte {
	s.out = s.out[:0]
	s.lines.feed(b)
	for l, ok := s.lines.next(); ok; l, ok = s.lines.next() {
		switch {
		case l.comment:
			s.out = append(s.out, l.b...)
		case !l.endsEvent:
			s.held = append(s.held, l.b...)
		case l.id > s.seen:
			s.found = true
			return append(append(append(s.out, s.held...), l.b...), b[s.lines.at:]...)
		default:
			s.held = s.held[:0]
		}
	}
	return s.out
}

// plainLines are the lines of a plain log, and the numbers of its events. Each event in it has one.
type plainLines struct {
	scan    sse.Scanner
	at      int    // the end of the last line, in what was fed last
	id      uint64 // of the event under way
	long    bool   // a part of the line under way has come
	comment bool   // that is a comment
	ended   bool   // the last line ended an event; an LF may belong to it
}

// plainLine is a line, or a part of one that is long.
type plainLine struct {
	b         []byte
	comment   bool
	endsEvent bool
	id        uint64 // of that event
}

// feed hands b to c, which does not keep it after next has returned false.
func (c *plainLines) feed(b []byte) {
	c.scan.Lines, c.scan.MaxFrame = true, lineHead-1
	c.at = -len(c.scan.Tail())
	c.scan.Feed(b)
}

// next returns the next line, and false if that is not complete. The LF of a CRLF after an event is
// none.
func (c *plainLines) next() (l plainLine, ok bool) {
	u, b, ok := c.scan.Next()
	if c.at += len(b); u == sse.UnitLF && c.ended {
		u, b, ok = c.scan.Next()
		c.at += len(b)
	}
	if !ok {
		c.scan.Rest()
		return l, false
	}
	l.b = b
	switch u {
	case sse.UnitNoise:
		l.endsEvent, l.id, c.ended = true, c.id, true
	case sse.UnitLF:
		l.comment = c.comment
	default:
		if !c.long {
			var line sse.Frame
			line.Parse(b[:min(len(b), lineHead)])
			if c.comment = bytes.HasPrefix(b, []byte(":")); line.ID != nil {
				c.id = plainID(line.ID) - 1
			}
		}
		l.comment, c.long, c.ended = c.comment, c.scan.Raw(), false
	}
	return l, true
}
