package redis

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// retryHeader is how many times an SDK of OpenAI's has sent the same request before.
const retryHeader = "X-Stainless-Retry-Count"

// TestKeysThatLogsTake are those of the new log, and what becomes of the old one does not change that.
func TestKeysThatLogsTake(t *testing.T) {
	for name, store := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t)
			old := begun(t, s.here, entry("a"), newRun())
			taking := entry("a")
			taking.Takes = true
			taken := begun(t, s.there, taking, newRun())
			for _, at := range []log.Store{s.here, s.there} {
				if have, err := claimAgain(at, "a"); err != nil || have.ID != taken.ID {
					t.Errorf("the key has %v, %v", have.ID, err)
				}
			}
			add(t, old, event(1))
			wantOld, _ := started(t, s.there, old.ID, 0)
			old.End(log.Whole)
			wantRest(t, wantOld, event(1), io.EOF)
			remove(t, s.here, old.ID)
			if have, err := claimAgain(s.there, "a"); err != nil || have.ID != taken.ID {
				t.Errorf("then the key has %v, %v", have.ID, err)
			}
			taken.End(log.Whole)
		})
	}
}

// TestKeysThatEndBeforeTheirLogs are free then, and the logs stay.
func TestKeysThatEndBeforeTheirLogs(t *testing.T) {
	for name, store := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t)
			short, long := entry("short"), entry("long")
			short.KeyKeep, long.KeyKeep = 20*time.Millisecond, 2*time.Hour
			open := begun(t, s.here, short, newRun())
			begun(t, s.here, long, newRun()).End(log.Whole)
			began := time.Now()
			until(t, "its time would be over, had it begun", func() bool { return time.Since(began) > short.KeyKeep })
			if have, err := claimAgain(s.there, "short"); err != nil || have.ID != open.ID {
				t.Errorf("while it is open the key has %v, %v", have.ID, err)
			}
			open.End(log.Whole)
			gone := entry("gone") // before its key would be
			gone.Keep, gone.KeyKeep = short.KeyKeep, time.Hour
			begun(t, s.here, gone, newRun()).End(log.Whole)
			for _, key := range []string{"short", "gone"} {
				until(t, "the key is free", func() bool {
					_, w, err := s.there.Claim(context.Background(), entry(key), log.Run{})
					if err != nil {
						t.Fatal(key, err)
					}
					return w != nil
				})
			}
			if !found(t, s.there, open.ID) {
				t.Error("the log has gone")
			}
			if have, err := claimAgain(s.there, "long"); err != nil || have.ID != long.ID {
				t.Errorf("the other key has %v, %v", have.ID, err)
			}
		})
	}
}

// beginBody begins the log of an answer that is no event stream.
func beginBody(t *testing.T, l log.Writer) {
	t.Helper()
	part := log.Part{Header: http.Header{"Content-Type": {"application/json"}}, Status: http.StatusCreated}
	if err := l.Append(context.Background(), part); err != nil {
		t.Fatal(err)
	}
}

// TestStatusOfABody comes with its header, or when its beginning has gone.
func TestStatusOfABody(t *testing.T) {
	for name, store := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t)
			l := claim(t, s.here, entry("a"), newRun())
			beginBody(t, l)
			add(t, l, "{}")
			l.End(log.Whole)
			r := follow(t, s.there, l.ID)
			if p, err := r.Next(); p.Status != http.StatusCreated || p.Header.Get("Content-Type") != "application/json" || err != nil {
				t.Errorf("%+v, %v", p, err)
			}
			wantRest(t, r, "{}", io.EOF)

			e := entry("b")
			e.MaxStream = 64 << 10
			large := claim(t, s.here, e, newRun())
			beginBody(t, large)
			for range 64 {
				add(t, large, string(make([]byte, 8<<10)))
			}
			large.End(log.Whole)
			p, err := follow(t, s.there, large.ID).Next()
			if gone := (*log.GoneError)(nil); p.Status != http.StatusCreated || !errors.As(err, &gone) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestDeathInABody breaks it off, and frees its key: a part of it is no answer, and gets no end.
func TestDeathInABody(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	dying, _ := server.replica(mortal)
	other, _ := server.replica(nil)
	l := claim(t, dying, entry("a"), newRun())
	beginBody(t, l)
	const part = `{"choices":`
	add(t, l, part)
	r := follow(t, other, l.ID)
	read(t, r, len(part))
	die(dying)
	wantRest(t, r, "", log.ErrBroken)
	until(t, "the key is free", func() bool {
		_, w, err := other.Claim(context.Background(), entry("a"), log.Run{})
		return w != nil && err == nil
	})
}

// TestRepeatsOfSDKsAtAnotherReplica join, streamed or not, and the first request never does.
func TestRepeatsOfSDKsAtAnotherReplica(t *testing.T) {
	t.Parallel()
	a, b := startServer(t).replicas()
	asked := make(chan string, 10)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/stream" {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}")
	}
	here, there := front(t, a, upstream), front(t, b, upstream)
	for _, path := range []string{"/stream", "/whole"} {
		send := func(count string) (string, http.Header, int) {
			res := ask(t, there, "POST", path, retryHeader, count, "Content-Type", "application/json")
			return body(t, res), res.Header, res.StatusCode
		}
		first := ask(t, here, "POST", path, retryHeader, "0", "Content-Type", "application/json")
		want := body(t, first)
		got, header, status := send("1")
		if got != want || status != first.StatusCode || header.Get("Idempotency-Replayed") != "true" || header.Get("Content-Length") != first.Header.Get("Content-Length") {
			t.Errorf("%s: %d %v %q, want %q", path, status, header, got, want)
		}
		if _, header, _ := send("0"); header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: the first joins", path)
		}
		if n := len(asked); n != 2 {
			t.Errorf("%s: upstream was asked %d times", path, n)
		}
		<-asked
		<-asked
	}
}

// TestSDKsDoNotWaitForRedis with their first requests, which run anyway. What runs here keeps its key.
func TestSDKsDoNotWaitForRedis(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(nil) // which would wait for as long as a test does
	h := front(t, s, answer)
	open := begun(t, s, entry("a"), newRun())
	server.kill()
	until(t, "it is missed", func() bool {
		_, err := s.Find(context.Background(), "stream_unknown")
		return errors.Is(err, errDown)
	})
	for range 2 {
		res := ask(t, h, "POST", "/chat", retryHeader, "0", "Content-Type", "application/json", "Name", "1")
		if got := body(t, res); got != event(1) {
			t.Errorf("%q", got)
		}
	}
	taking := entry("a")
	taking.Takes = true
	if _, w, err := s.Claim(context.Background(), taking, log.Run{}); w != nil || err == nil {
		t.Errorf("it is claimed: %v, %v", w, err)
	}
	if have, err := claimAgain(s, "a"); err != nil || have.ID != open.ID {
		t.Errorf("the key has %v, %v", have.ID, err)
	}
}
