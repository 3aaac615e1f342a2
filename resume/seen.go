package resume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// lastSeq is the query parameter that names the last event that a client has of a run, as
// Last-Event-ID does. Hermes has it since 0.22.
const lastSeq = "last_seq"

// seen is the last event of a plain log that a client has.
type seen struct {
	id uint64
	ok bool // there is one
}

// seenBy returns the last event that the client of r says it has. It ignores invalid numbers.
func seenBy(r *http.Request) seen {
	id := plainID([]byte(r.Header.Get(LastEventHeader)))
	if id == 0 {
		id = plainID([]byte(r.URL.Query().Get(lastSeq)))
	}
	return seen{id - 1, id > 0}
}

// follow answers r with the events of the plain log with the id that the client has not seen, as
// they are appended. If it returns a problem, it has not answered.
func (s seen) follow(o *Options, w http.ResponseWriter, r *http.Request, id string) error {
	n, over, err := s.place(o.Store, id)
	if err != nil {
		return problemOf(err)
	}
	if over {
		// This stops an EventSource, which treats every other end as a failure.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return follow(o, w, r, repeat{reader: s.skip(o.Store.Read(r.Context(), id, n)), continues: s.ok})
}

// place returns the number in the log of an event up to which the client has seen all that is kept,
// 0 for none, and whether the log is whole and has no event after that. If the client has seen
// nothing, the oldest event that is kept is next. If events after the last one seen were
// deleted, the error is a *GoneError.
func (s seen) place(store log.Store, id string) (n uint64, over bool, err error) {
	done, cancel := context.WithCancel(context.Background())
	cancel() // do not wait for more
	reader, n, err := readAfter(done, store, id, 0)
	first, deleted := true, n > 0
	if s.ok && err == nil {
		if to := s.lastSeen(done, store, id, n); to > n {
			reader.Close()
			reader, n, err = readAfter(done, store, id, to)
			first = false
		}
	}
	defer reader.Close()
	var lines plainLines
	for s.ok && err == nil {
		var part log.Part
		part, err = reader.Next()
		lines.feed(part.Data)
		for l, ok := lines.next(); ok; l, ok = lines.next() {
			switch {
			case !l.endsEvent:
			case l.id > s.id && first && deleted && l.id > s.id+1:
				return 0, false, &log.GoneError{First: l.id}
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
	case err == nil, errors.Is(err, log.ErrBroken), errors.Is(err, done.Err()):
		return n, false, nil
	}
	return 0, false, err
}

// lastSeen returns the number of an event of the plain log with the id, as lastBefore does. Those that
// were not seen are sought. ctx must be done.
func (s seen) lastSeen(ctx context.Context, store log.Store, id string, n uint64) uint64 {
	return lastBefore(n, func(n uint64) (at uint64, before bool) {
		r, n, err := readAfter(ctx, store, id, n)
		defer r.Close()
		var lines plainLines
		for err == nil {
			var part log.Part
			part, err = r.Next()
			lines.feed(part.Data)
			for l, ok := lines.next(); ok; l, ok = lines.next() {
				if l.endsEvent {
					return n + 1, l.id <= s.id
				}
			}
		}
		return 0, false
	})
}

// skip returns a reader that leaves out the events that were seen.
func (s seen) skip(r log.Reader) log.Reader {
	if !s.ok {
		return r
	}
	return &skipper{Reader: r, seen: s.id}
}

// skipper is a Reader of a plain log that leaves out events. It holds back the event under way
// until its number is known, but no comments.
type skipper struct {
	log.Reader
	seen  uint64 // the number of the last event that is left out
	found bool   // all that were seen have been left out
	lines plainLines
	held  []byte // of the event under way
	out   []byte
}

func (s *skipper) Next() (log.Part, error) {
	part, err := s.Reader.Next()
	if s.found || err != nil || part.Header != nil {
		return part, err
	}
	return log.Part{Data: s.skip(part.Data)}, nil
}

// skip returns the bytes to send when b arrives.
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

// plainLines cuts a plain log into lines, and finds the numbers of its events. Each event has one.
type plainLines struct {
	scan    sse.Scanner
	at      int    // the end of the last line, in the bytes fed last
	id      uint64 // of the event under way
	long    bool   // a part of the line under way was read
	comment bool   // the line under way is a comment
	ended   bool   // the last line ended an event; an LF may belong to it
}

// plainLine is a line, or a part of one that is long.
type plainLine struct {
	b         []byte
	comment   bool
	endsEvent bool
	id        uint64 // the number of the event that ends
}

// feed hands b to c, which does not keep it after next has returned false.
func (c *plainLines) feed(b []byte) {
	c.scan.Lines, c.scan.MaxFrame = true, lineHead-1
	c.at = -len(c.scan.Tail())
	c.scan.Feed(b)
}

// next returns the next line, or false if it is not whole. It skips the LF of a CRLF after an
// event.
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
