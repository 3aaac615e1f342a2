package splice

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// errQuiet is why a connection is given up.
var errQuiet = errors.New("nothing has come for too long")

// errShort means that the site sends less than it has sent before.
var errShort = errors.New("the stream is shorter than it was")

// A stream is the body of an answer, whose connections may break.
type stream struct {
	next      http.RoundTripper
	asked     *http.Request
	body      []byte // of the request
	detach    bool   // the run goes on without the client
	resumeFor time.Duration

	ctx    context.Context // of all requests
	cancel context.CancelCauseFunc
	id     string

	// Of the goroutine that reads.
	at      position
	from    io.ReadCloser // the connection, nil while it is broken
	abort   context.CancelCauseFunc
	skip    int64  // what comes of it that the client has
	comment []byte // what the client is still to get of a comment
	ended   bool   // the connection before has ended as a whole stream does
	back    chan answer
	err     error // of every Read from now on

	over sync.Once
}

// comment is what a client gets while it waits. A blank line would end an event.
const comment = ": keepalive\n"

// take reports whether the answer is a stream that can be continued, and keeps its connection.
func (s *stream) take(a answer) bool {
	id := a.res.Header.Get(resume.StreamHeader)
	if id == "" || a.res.StatusCode != http.StatusOK || head.MediaType(a.res.Header) != "text/event-stream" {
		return false
	}
	s.id, s.from, s.abort, s.body = id, a.res.Body, a.abort, nil
	return true
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for s.err == nil && len(p) > 0 {
		if len(s.comment) > 0 {
			n := copy(p, s.comment)
			s.comment = s.comment[n:]
			return n, nil
		}
		if s.from == nil {
			s.await()
			continue
		}
		n, err := s.readOn(p)
		if err != nil {
			s.broken(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, s.err
}

// readOn reads from the connection what the client does not have.
func (s *stream) readOn(p []byte) (int, error) {
	quiet := time.AfterFunc(quietFor, func() { s.abort(errQuiet) })
	n, err := s.from.Read(p)
	quiet.Stop()
	have := min(int64(n), s.skip)
	s.skip -= have
	n = copy(p, p[have:n])
	s.at.add(p[:n])
	s.ended = s.ended && n == 0
	return n, err
}

// broken records that the connection has ended, and comes back unless that was the end of the
// stream. Not all that stands in between says so if it breaks off, so that the site is asked.
func (s *stream) broken(err error) {
	_ = s.from.Close()
	s.abort(err)
	s.from = nil
	end := err == io.EOF //nolint:errorlint // the end is that very value
	switch {
	case s.ctx.Err() != nil:
		s.err = context.Cause(s.ctx)
	case end && s.skip > 0:
		s.err = errShort
	case end && (s.ended || s.at.done):
		s.err = io.EOF
	default:
		s.ended = end
		s.back = make(chan answer, 1)
		go func(back chan<- answer) { back <- s.retry(s.comeBack) }(s.back)
	}
	if s.err != nil {
		s.finish(s.err != io.EOF) //nolint:errorlint // see above
	}
}

// await waits for the new connection, or until the client is to get a comment.
func (s *stream) await() {
	select {
	case a := <-s.back:
		switch {
		case a.err != nil && s.ended, a.err == nil && a.res.StatusCode == http.StatusNoContent:
			s.err = io.EOF
		case a.err != nil:
			s.err = a.err
		default:
			s.from, s.abort, s.skip = a.res.Body, a.abort, s.at.since
			return
		}
		s.finish(s.err != io.EOF) //nolint:errorlint // see above
	case <-time.After(keepaliveEvery):
		if s.at.between() {
			s.comment = []byte(comment)
		}
	case <-s.ctx.Done():
		s.err = context.Cause(s.ctx)
	}
}

// Close implements io.Closer. A client that closes a stream before its end has left.
func (s *stream) Close() error { return s.leave(context.Canceled) }

// leave ends the connection, and the run if the stream is not over.
func (s *stream) leave(why error) error {
	s.finish(true)
	s.cancel(why)
	return nil
}

// finish records that the stream is over. The first time it may end the run.
func (s *stream) finish(endRun bool) {
	s.over.Do(func() {
		if endRun && !s.detach && s.id != "" {
			go s.endRun()
		}
	})
}

// endRun asks the site to end the run.
func (s *stream) endRun() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.asked.Context()), deleteFor)
	defer cancel()
	if res, err := s.next.RoundTrip(s.ofStream(ctx, http.MethodDelete)); err == nil {
		_ = res.Body.Close()
	}
}
