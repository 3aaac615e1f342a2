package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// deadlined is an inner writer with a deadline, which it keeps without a lock, as
// Caddy's (idletimeout.go:401).
type deadlined struct {
	*recorder
	deadline time.Time
	duplex   bool
}

func (w *deadlined) SetWriteDeadline(d time.Time) error {
	moves.Load()
	w.deadline = d
	return nil
}

func (w *deadlined) EnableFullDuplex() error {
	w.duplex = true
	return nil
}

func (w *deadlined) Write(b []byte) (int, error) {
	moves.Load()
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		return 0, context.DeadlineExceeded
	}
	if w.duplex {
		w.looks++
	}
	return w.recorder.Write(b)
}

// TestDeadlinesAreSetBesideKeepalives has the handler set what the inner writer
// looks at while a timer writes.
func TestDeadlinesAreSetBesideKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{Keepalive: time.Millisecond})
		w := &deadlined{recorder: &recorder{t: t, header: make(http.Header)}}
		_ = p.Serve(w, chatRequest(`{"stream":true}`), func(rw http.ResponseWriter, _ *http.Request) error {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = rw.Write([]byte(role))
			for range 100 {
				time.Sleep(time.Millisecond) // until the timer writes
				if err := http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(rw).EnableFullDuplex(); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		if !w.duplex {
			t.Error("the inner writer was not told")
		}
	})
}

// TestDeadlineOfTheHandlerIsForItsOwnWrites: many set one before each write. It
// has passed when a keepalive is sent, or the stream is ended for it; then the
// client is not gone.
func TestDeadlineOfTheHandlerIsForItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{Keepalive: 10 * time.Second, IdleTimeout: time.Minute})
		w := &deadlined{recorder: &recorder{t: t, header: make(http.Header)}}
		_ = p.Serve(w, chatRequest(`{"stream":true}`), func(rw http.ResponseWriter, up *http.Request) error {
			rw.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = rw.Write([]byte(role))
			advance(10 * time.Second)
			if up.Context().Err() != nil {
				t.Error("upstream's request has ended")
			}
			if want := time.Now().Add(-9 * time.Second); !w.deadline.Equal(want) {
				t.Errorf("the deadline is %v behind the keepalive, want %v as before", w.deadline, want)
			}
			advance(time.Hour)
			return nil
		})
		if got, want := w.body.String(), role+beatForm+beatForm+beatForm+beatForm+beatForm+errorFinish("upstream_timeout", false); got != want {
			t.Errorf("the client was sent\n%s\nwant\n%s", got, want)
		}
		if !w.deadline.IsZero() {
			t.Error("the end of the body has the handler's deadline")
		}
	})
}

// TestDeadlineBeforeATimersAnswer: the answer is none of the handler's writes.
func TestDeadlineBeforeATimersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{FirstByteTimeout: time.Minute})
		w := &deadlined{recorder: &recorder{t: t, header: make(http.Header)}}
		_ = p.Serve(w, chatRequest(`{"stream":true}`), func(rw http.ResponseWriter, _ *http.Request) error {
			_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Second))
			advance(time.Hour)
			if err := http.NewResponseController(rw).SetWriteDeadline(time.Now()); err == nil {
				t.Error("the deadline of an answer that has been sent may be set")
			}
			return nil
		})
		checkAnswer(t, w.sent, w.body.Bytes(), "upstream_timeout", true)
	})
}

// appliedTimeouts writes down what is called.
type appliedTimeouts struct{ log *[]string }

func (a appliedTimeouts) Apply()   { *a.log = append(*a.log, "apply") }
func (a appliedTimeouts) Restore() { *a.log = append(*a.log, "restore") }

// TestTimeoutsAreAppliedOnceWhileNobodyElseWrites.
func TestTimeoutsAreAppliedOnceWhileNobodyElseWrites(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		act  func(http.ResponseWriter)
		want []string
	}{
		"stream":      {func(w http.ResponseWriter) { writeStream(w, role) }, []string{"apply", "header 200", "restore"}},
		"passes":      {func(w http.ResponseWriter) { _, _ = w.Write([]byte("hi")) }, []string{"apply", "header 200", "restore"}},
		"no answer":   {func(http.ResponseWriter) {}, []string{"restore"}},
		"early hints": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, []string{"header 103", "restore"}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{t: t, header: make(http.Header)}
			a := appliedTimeouts{&rec.log}
			p := proxy.New(proxy.Options{Timeouts: func(ctx context.Context) (context.Context, proxy.Timeouts) {
				return context.WithValue(ctx, key{}, 1), a
			}})
			_ = p.Serve(rec, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, up *http.Request) error {
				if up.Context().Value(key{}) != 1 {
					t.Error("the next handler has not got the context")
				}
				c.act(w)
				return nil
			})
			got := slices.DeleteFunc(rec.log, func(s string) bool { return s[0] == 'w' || s[0] == 'f' })
			if !slices.Equal(got, c.want) {
				t.Errorf("calls %q, want %q", got, c.want)
			}
		})
	}
}

// writeStream writes an event stream.
func writeStream(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte(s))
}
