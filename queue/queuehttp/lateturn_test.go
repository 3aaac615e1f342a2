package queuehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// A typing is an exchange whose request has a body that comes while upstream reads it.
type typing struct {
	*inLine
	client *io.PipeWriter
	read   string     // by upstream so far
	typed  chan error // why upstream reads no more
}

// types begins an exchange with a body of the announced length, -1 for none, of which the client sends
// "[1, ", and waits until the next handler reads it.
func types(t *testing.T, length int64, settings ...setting) *typing {
	t.Helper()
	body, client := io.Pipe()
	t.Cleanup(func() { client.Close() })
	pipe := func(_ *options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = body, length
		r.Header.Set("Content-Type", "application/json")
	}
	x := &typing{waits(t, 0, append([]setting{pipe}, settings...)...), client, "", make(chan error, 1)}
	go func() { _, _ = client.Write([]byte("[1, ")) }()
	<-x.Ack
	up := x.Up
	go func() {
		b := make([]byte, 4)
		for {
			n, err := up.Body.Read(b)
			x.read += string(b[:n])
			if err != nil {
				x.typed <- err
				return
			}
		}
	}()
	x.wantReads("[1, ", true)
	return x
}

// send has the client send a part of the body, and its end if that is said.
func (x *typing) send(part string, ends bool) {
	x.T.Helper()
	go func() {
		_, _ = x.client.Write([]byte(part))
		if ends {
			x.client.Close()
		}
	}()
	synctest.Wait()
}

// wantReads checks what upstream has read, and whether it reads more.
func (x *typing) wantReads(want string, more bool) {
	x.T.Helper()
	synctest.Wait()
	select {
	case err := <-x.typed:
		if more || err != io.EOF {
			x.T.Errorf("upstream's read ended with %v", err)
		}
	default:
		if !more {
			x.T.Error("upstream still reads")
		}
	}
	x.wantReadIs(want)
}

func (x *typing) wantReadIs(want string) {
	x.T.Helper()
	equal(x.T, x.read, want, "what upstream has read")
}

// others takes the only place.
func (x *typing) others() *queue.Turn {
	x.T.Helper()
	turn, err := x.lines.Join("b", queue.Options{Runs: 1}, queue.Client{9})
	if err != nil {
		x.T.Fatalf("the place is taken: %v", err)
	}
	return turn
}

// gzipped says that the body is compressed, so that the sidecar does not read it.
var gzipped = header("Content-Encoding", "gzip")

// TestPlaceBeginsWithTheEndOfTheBody: a body that is not read first goes on to upstream as it comes, and
// takes a place when it has come: upstream gets its end with that.
func TestPlaceBeginsWithTheEndOfTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		held   string // what upstream has before it is the request's turn
		set    []setting
	}{
		"compressed":              {-1, "[1, 2, 3]", []setting{gzipped}},
		"compressed, of a length": {9, "[1, 2, 3", []setting{gzipped}},
		"multipart":               {9, "[1, 2, 3", []setting{header("Content-Type", "multipart/form-data; boundary=x")}},
		"incremental":             {9, "[1, 2, 3", []setting{header("Incremental", "?1")}},
		"no object":               {9, "[1, 2, 3", nil},
		"no object, of no length": {-1, "[1, 2, 3]", nil},
		"too large":               {9, "[1, 2, 3", []setting{option(func(o *options) { o.MaxRequest = 8 })}},
		"with deadlines":          {9, "[1, 2, 3", []setting{gzipped, limits("first=1m idle=1m stall=1m keepalive=1s")}},
		"of a run":                {9, "[1, 2, 3", []setting{gzipped, path("/v1/runs")}},
		"of a session":            {-1, "[1, 2, 3]", []setting{gzipped, path(sessionPath)}},
		"of a response":           {-1, "[1, 2, 3]", []setting{gzipped, path(responsesPath)}},
	} {
		bubble(t, name, func(t *testing.T) {
			x := types(t, c.length, c.set...)
			advance(30 * time.Second) // in which the client types
			other := x.others()
			x.send("2, ", false)
			x.send("3", false)
			x.wantReads("[1, 2, 3", true)
			if got := x.lines.Stats(); got.Waiting != 0 || got.Running != 1 {
				t.Errorf("%+v", got)
			}
			x.send("]", true)
			x.wantReads(c.held, true)
			if got := x.lines.Stats(); got.Waiting != 1 {
				t.Errorf("%+v", got)
			}
			advance(50 * time.Second)
			equal(t, x.Rec.Body.Len(), 0, "bytes sent while it waits")
			other.Done()
			x.wantReads("[1, 2, 3]", false)
			if got := x.lines.Stats(); got.Running != 1 {
				t.Errorf("%+v", got)
			}
			x.Do(func() {
				x.W.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(x.W, "answer")
			})
			x.Ret(nil).WantSwallowed(t)
			x.WantBody("answer")
			x.wantFree()
		})
	}
	bubble(t, "an array that has come whole", func(t *testing.T) {
		x := waits(t, 1, body("[1]"))
		x.goesOn()
		x.Do(func() {
			b, err := io.ReadAll(x.Up.Body)
			equal(t, string(b), "[1]", "what upstream gets")
			equal(t, err, nil, "the error")
		})
		if got := x.lines.Stats(); got.Running != 1 {
			t.Errorf("%+v", got)
		}
		x.Ret(nil)
		x.wantFree()
	})
}

// TestNoPlaceAtTheEndOfTheBody: upstream does not get the end of the body, and the client gets what others
// get that have no place.
func TestNoPlaceAtTheEndOfTheBody(t *testing.T) {
	failed := func(x *typing) {
		x.T.Helper()
		synctest.Wait()
		select {
		case err := <-x.typed:
			if err == io.EOF || !errors.Is(err, context.Canceled) {
				x.T.Errorf("upstream's read ended with %v", err)
			}
		default:
			x.T.Error("upstream still reads")
		}
		if x.Up.Context().Err() == nil {
			x.T.Error("upstream's request goes on")
		}
		x.wantReadIs("[1, ")
	}
	refused := func(x *typing, code string) {
		x.T.Helper()
		failed(x)
		x.Ret(statusError(502)).WantSwallowed(x.T)
		equal(x.T, x.Rec.Status, 429, "status")
		equal(x.T, strings.Contains(x.Rec.Body.String(), code), true, code)
		equal(x.T, x.Result().Outcome, code, "outcome")
	}
	bubble(t, "full", func(t *testing.T) {
		x := types(t, 7, gzipped, statusOf(502))
		x.o.Waiting = 0
		x.others()
		x.send("2]]", true)
		refused(x, "queue_full")
	})
	bubble(t, "timeout", func(t *testing.T) {
		x := types(t, 7, gzipped, statusOf(502))
		x.others()
		x.send("2]]", true)
		advance(time.Minute)
		refused(x, "queue_timeout")
	})
	bubble(t, "a drain", func(t *testing.T) {
		x := types(t, 7, gzipped, statusOf(502), limits("drain=10s"))
		x.others()
		x.send("2]]", true)
		x.Streams.Shutdown(0)
		failed(x)
		x.Ret(errTest).WantSwallowed(t)
		x.WantAnswerOf(502, "shutting_down", false)
	})
	bubble(t, "the client leaves", func(t *testing.T) {
		x := types(t, 7, gzipped, statusOf(502))
		other := x.others()
		x.send("2]]", true)
		x.Leave()
		failed(x)
		x.Abort().Want(t, "abort")
		other.Done()
		x.wantFree()
	})
	bubble(t, "the writer panics", func(t *testing.T) {
		x := types(t, 7, gzipped, func(_ *options, _ *http.Request, rec *recorder) {
			rec.OnWrite = func([]byte) (int, error) { panic("boom") }
		})
		x.others()
		x.send("2]]", true)
		advance(time.Minute)
		failed(x)
		if e := x.Abort(); !strings.HasPrefix(fmt.Sprint(e.Panicked), "boom") {
			t.Errorf("the guard ended with panic %v", e.Panicked)
		}
	})
	bubble(t, "the exchange is over", func(t *testing.T) {
		x := types(t, 7, gzipped)
		x.Ret(errTest)
		x.send("2]]", true)
		x.wantFree()
	})
	bubble(t, "the exchange ends while it waits", func(t *testing.T) {
		x := types(t, 7, gzipped)
		other := x.others()
		x.send("2]]", true)
		x.Ret(errTest)
		synctest.Wait()
		other.Done()
		x.wantFree()
	})
}

// TestUpstreamAnswersBeforeTheEndOfTheBody: it does not need the end, so no place is taken for it.
func TestUpstreamAnswersBeforeTheEndOfTheBody(t *testing.T) {
	for name, waits := range map[string]bool{"": false, ", while it waits": true} {
		bubble(t, "with an error"+name, func(t *testing.T) {
			x := types(t, 7, gzipped)
			other := x.others()
			if waits {
				x.send("2]]", true)
			}
			x.Do(func() {
				x.W.Header().Set("Content-Type", "text/plain")
				x.W.WriteHeader(413)
				_, _ = io.WriteString(x.W, "too large")
			})
			if !waits {
				x.send("2]]", true)
				x.wantReads("[1, 2]]", false)
			}
			advance(2 * time.Minute)
			x.Ret(nil).WantSwallowed(t)
			equal(t, x.Rec.Status, 413, "status")
			x.WantBody("too large")
			other.Done()
			x.wantFree()
		})
		bubble(t, "with a stream"+name, func(t *testing.T) {
			x := types(t, 7, gzipped, limits("keepalive=1m"))
			other := x.others()
			if waits {
				x.send("2]]", true)
			}
			x.Stream()
			x.Write(role)
			advance(30 * time.Second)
			if !waits {
				x.send("2]]", true)
			}
			other.Done()
			synctest.Wait()
			x.wantReadIs("[1, 2]]")
			x.Write(text("a"), fullStop, done)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(role + text("a") + fullStop + done)
			x.wantFree()
		})
	}
}
