package splice

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"time"
)

const (
	// quietFor is how long a stream may send nothing before its connection counts as broken: a
	// machine that leaves a network closes none. Hermes sends a comment every 30 seconds.
	quietFor = 45 * time.Second
	// keepaliveEvery is how often a client that waits for the site gets a comment.
	keepaliveEvery = 5 * time.Second
	// steadyFor is how long a connection without any bytes must last to count as one that works.
	steadyFor = 500 * time.Millisecond
	// maxHeld is how many bytes of an event are held back until its number is known. A larger event
	// is passed on in parts.
	maxHeld = 64 << 10
)

var (
	// errQuiet means that a connection was given up because nothing came for too long.
	errQuiet = errors.New("nothing was received for too long")
	// errShort means that the site sends less than it has sent before.
	errShort = errors.New("the stream is shorter than it was")
	// errTrimmed means that the stream goes on, but the site has deleted its next events.
	errTrimmed = errors.New("the site has deleted the next events of the stream")
	// errChanged means that the site sends other bytes than before. A replica that has died may
	// have been the only one that had them.
	errChanged = errors.New("the stream has changed")
	// errRepeats means that the site has sent an event that the client already has.
	errRepeats = errors.New("the site repeats events")
)

// A stream is the body of an answer, whose connections may break. It is for the goroutine that reads;
// while that waits, the requests are for the goroutine that connects again.
type stream struct {
	requests
	at    position    // up to which the stream has been passed on
	ahead position    // up to which it was read
	held  []byte      // the bytes between the two
	most  int64       // how much of the event under way was read, ever
	conn  *connection // nil while it is broken
	out   []byte      // what the client must get next
	ended bool        // the previous connection ended as a whole stream does
	back  chan answer // from the goroutine that connects again
	err   error       // of every Read from now on
}

// A connection carries a stream from the last event that was passed on.
type connection struct {
	from    io.ReadCloser
	abort   context.CancelCauseFunc
	began   time.Time
	brought bool         // new bytes were read from it
	skip    int64        // bytes not read yet that the client already has
	skipped maphash.Hash // of the bytes skipped so far
}

// connect returns the connection of a, which carries what follows the last event before at.
func connect(a answer, at *position) *connection {
	c := &connection{from: a.res.Body, abort: a.abort, began: time.Now(), skip: at.since}
	c.skipped.SetSeed(at.sum.Seed())
	return c
}

// read reads into p what the client does not have already. have is the hash of what it has. The
// error is errChanged if the connection carries something else.
func (c *connection) read(p []byte, have *maphash.Hash) (int, error) {
	quiet := time.AfterFunc(quietFor, func() { c.abort(errQuiet) })
	n, err := c.from.Read(p)
	quiet.Stop()
	if known := min(int64(n), c.skip); known > 0 {
		_, _ = c.skipped.Write(p[:known]) // never fails
		if c.skip -= known; c.skip == 0 && c.skipped.Sum64() != have.Sum64() {
			return 0, errChanged
		}
		n = copy(p, p[known:n])
	}
	return n, err
}

// comment is what a client gets while it waits. It has no blank line, which would end an event.
const comment = ": keepalive\n"

// take reports whether a is a stream that can be continued. If so, s uses its connection.
func (s *stream) take(a answer) bool {
	s.body = nil
	if s.id = streamOf(a.res); s.id == "" {
		return false
	}
	s.at.of = s.id + "/"
	s.attach(a)
	s.forgive(0)
	a.res.Header.Del("Content-Length") // comments are in between
	a.res.ContentLength = -1
	return true
}

// attach makes s use the connection of a.
func (s *stream) attach(a answer) {
	s.conn = connect(a, &s.at)
	s.ahead, s.held = s.at, nil
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(p) > 0 {
		switch {
		case len(s.out) > 0:
			n := copy(p, s.out)
			s.out = s.out[n:]
			return n, nil
		case s.err != nil:
			return 0, s.err
		case s.conn == nil:
			s.await()
		default:
			n, err := s.readOn(p)
			if err != nil {
				s.broken(err)
			}
			if n > 0 {
				return n, nil
			}
		}
	}
	return 0, s.err
}

// readOn reads from the connection into p, without what the client already has. The client must get
// the bytes in s.out before that.
func (s *stream) readOn(p []byte) (int, error) {
	n, err := s.conn.read(p, &s.at.sum)
	if errors.Is(err, errChanged) {
		return 0, err
	}
	ready, stale := s.advance(p[:n])
	switch {
	case stale != nil:
		err = stale
	case n > 0:
		s.ended, s.conn.brought = false, true
	}
	if err == io.EOF { //nolint:errorlint // the end is that very value
		ready, s.at = n, s.ahead // the rest of the event may never be sent
	}
	rest := p[ready:n]
	if len(s.held) > 0 && (ready > 0 || err == io.EOF) { //nolint:errorlint // as above
		s.out, s.held = append(s.held, p[:ready]...), nil
		ready = 0
	}
	s.held = append(s.held, rest...)
	return ready, err
}

// advance records that p was read. It returns how many bytes of it may leave, with the bytes held
// before them, and an error if a part of it is stale.
func (s *stream) advance(p []byte) (ready int, err error) {
	held := len(s.held)
	for n := 0; n < len(p); {
		size := s.ahead.add(p[n:])
		n += size
		held += size
		if !s.ahead.outside() && s.ahead.since > s.most {
			s.most = s.ahead.since // connections may be too short for the event
			s.forgive(firstPause)
		}
		switch {
		case s.ahead.stale && s.at.outside():
			return ready, errRepeats
		case s.ahead.stale: // the client has a part of it
			return ready, errChanged
		case !s.ahead.outside() && s.at.outside() && held <= maxHeld:
			continue
		case s.ahead.n > s.at.n:
			s.most = 0
			s.forgive(0)
		}
		s.at, ready, held = s.ahead, n, 0
	}
	return ready, nil
}

// broken records that the connection has ended with err, and connects again unless that was the end of
// the stream. Some proxies end a stream that broke off like a whole one, so the site is asked.
func (s *stream) broken(err error) {
	c := s.conn
	_ = c.from.Close()
	c.abort(err)
	s.conn = nil
	end := err == io.EOF //nolint:errorlint // the end is that very value
	switch {
	case s.ctx.Err() != nil:
		s.fail(context.Cause(s.ctx))
	case errors.Is(err, errChanged):
		s.fail(err)
	case end && c.skip > 0:
		s.fail(errShort)
	case end && (s.ended && s.at.mayBeEnd() || s.at.done):
		s.fail(io.EOF)
	default:
		if time.Since(c.began) >= steadyFor && !errors.Is(err, errRepeats) {
			s.forgive(firstPause)
		}
		if s.ended = end && (c.brought || s.at.mayBeEnd()); end {
			err = io.ErrUnexpectedEOF
		}
		last := s.at.n
		ask := func(ctx context.Context) (*http.Response, error) { return s.askAfter(ctx, last) }
		s.back = make(chan answer, 1)
		go func(back chan<- answer) { back <- s.retry(ask, err) }(s.back)
	}
}

// await waits for the new connection, or until the client is to get a comment.
func (s *stream) await() {
	select {
	case a := <-s.back:
		switch {
		case a.err != nil && s.ended && !errors.Is(a.err, errTrimmed), a.err == nil && a.res.StatusCode == http.StatusNoContent:
			s.fail(io.EOF)
		case a.err != nil:
			s.fail(a.err)
		default:
			s.attach(a)
		}
	case <-time.After(keepaliveEvery):
		if s.at.between() {
			s.out = []byte(comment)
		}
	case <-s.ctx.Done():
		s.fail(context.Cause(s.ctx))
	}
}

// fail ends the stream with the error, which is io.EOF if it is whole. The client gets the bytes held
// of an event that nobody will complete.
func (s *stream) fail(err error) {
	if !s.ahead.stale {
		s.out, s.held = append(s.out, s.held...), nil
	}
	s.err = err
	s.finish(err != io.EOF) //nolint:errorlint // the end is that very value
}

// Close implements io.Closer. A client that closes a stream before its end has left.
func (s *stream) Close() error {
	s.leave(context.Canceled)
	return nil
}
