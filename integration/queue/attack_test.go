package queue

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// TestMadeUpKeys: each key that a client makes up is a client to the line. They come before one with
// nothing running only if they came first, each with one request: so one that is in line is served,
// and who comes when the line is full is refused, at once.
func TestMadeUpKeys(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 2", "waiting 101")
	p.ask(chat, "holder", "slow-1")
	p.ask(chat, "holder", "slow-2")
	p.Until(t, "slow-1", "slow-2")
	for i := range 100 {
		p.ask(whole, fmt.Sprintf("made-up-%d", i), fmt.Sprintf("slow-made-up-%d", i))
	}
	p.untilWaiting(100)
	honest := p.ask(chat, "honest", "honest")
	p.untilWaiting(101)
	p.ask(chat, "honest-2", "late").refused(chat, "queue_full")
	for i := range 300 { // more of the attacker's find no room
		p.ask(whole, fmt.Sprintf("more-%d", i), "more").refused(whole, "queue_full")
	}
	p.Release()
	honest.good(chat)
	p.free(2)
}

// TestComingAndGoing: a client that opens and leaves in a loop leaves nothing behind, and upstream
// hears nothing of it.
func TestComingAndGoing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 1", "waiting 50")
	p.ask(chat, "holder", "slow-1")
	p.Until(t, "slow-1")
	waits := p.ask(chat, "honest", "honest")
	p.untilWaiting(1)
	for i := range 40 {
		var all []*pending
		for j := range 25 {
			all = append(all, p.ask(kinds[[]string{"chat", "session", "run"}[j%3]], fmt.Sprintf("key-%d", i), "leaves"))
		}
		if i%2 == 0 {
			p.untilWaiting(26)
		}
		for _, q := range all {
			q.leave()
		}
		for _, q := range all {
			<-q.done
		}
	}
	p.untilWaiting(1)
	p.End("slow-1")
	waits.good(chat)
	p.free(1)
	if p.Has("leaves") {
		t.Error("upstream has heard of one that left")
	}
}

// limited is the body with which Hermes refuses a run.
const limited = `{"error": {"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`

// TestLyingUpstream: whatever upstream's 429 is like, the request ends within its wait, and others go on.
func TestLyingUpstream(t *testing.T) {
	t.Parallel()
	endless := func(kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, "data: {}\n\n"); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	lies := map[string]http.HandlerFunc{
		"forever":       hermes.Replies(429, "application/json", limited, "Retry-After", "1"),
		"long":          hermes.Replies(429, "application/json", limited, "Retry-After", "99999999"),
		"overflow":      hermes.Replies(429, "application/json", limited, "Retry-After", "99999999999999999999999999"),
		"nanoseconds":   hermes.Replies(429, "application/json", limited, "Retry-After", "9300000000"), // in nanoseconds, above an int64
		"negative":      hermes.Replies(429, "application/json", limited, "Retry-After", "-5"),
		"zero":          hermes.Replies(429, "application/json", limited, "Retry-After", "0"),
		"fraction":      hermes.Replies(429, "application/json", limited, "Retry-After", "0.5"),
		"date":          hermes.Replies(429, "application/json", limited, "Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT"),
		"old date":      hermes.Replies(429, "application/json", limited, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"),
		"words":         hermes.Replies(429, "application/json", limited, "Retry-After", "soon"),
		"none":          hermes.Replies(429, "application/json", limited),
		"empty":         hermes.Replies(429, "application/json", ""),
		"events":        hermes.Replies(429, "text/event-stream", "data: {}\n\n", "Retry-After", "1"),
		"HTML":          hermes.Replies(429, "text/html", "<h1>Too Many Requests</h1>"),
		"encoded":       hermes.Replies(429, "application/json", "\x1f\x8b", "Content-Encoding", "gzip"),
		"endless":       endless("application/json"),
		"endless event": endless("text/event-stream"),
	}
	liedTo := []kind{chat, whole, responses, session, runs}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 10, "runs 5", "wait 2s")
			asked, all := new(atomic.Int32), make(chan struct{})
			p.Answer("lie", func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == int32(len(liedTo)) {
					close(all)
				}
				<-all // of each kind one gets the lie
				lie(w, r)
			})
			var asks []*pending
			for _, k := range liedTo {
				asks = append(asks, p.ask(k, "key-1", "lie"))
			}
			tooLong, enough := context.WithTimeout(t.Context(), 5*time.Second)
			defer enough()
			for i, q := range asks {
				k := liedTo[i]
				if !strings.HasPrefix(name, "endless") {
					<-q.done
				} else {
					select {
					case <-q.done:
					case <-tooLong.Done():
						q.leave() // upstream's endless answer may pass as it is
						<-q.done
						continue
					}
				}
				if q.err != nil {
					t.Errorf("%s: %v", k.path, q.err)
					continue
				}
				body := q.body.String()
				late := strings.Contains(body, "queue_timeout")
				if q.reply.StatusCode != 429 && !(k.stream && q.reply.StatusCode == 200 && (late || strings.Contains(body, "rate_limit_exceeded") || strings.Contains(body, "error"))) {
					t.Errorf("%s: %s %s", k.path, q.reply.Status, harness.Clip(body))
				}
				if k == chat && q.reply.StatusCode == 200 && !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("%s: ends in %q", k.path, body[max(0, len(body)-200):])
				}
			}
			if n := asked.Load(); n > 5*8 {
				t.Errorf("upstream was asked %d times", n)
			}
			// The answer to a run whose client has left is waited for, for a while.
			harness.Until(t, "all places are free", func() bool { return p.metric("running") <= 0 })
			p.free(5)
		})
	}
}

// TestOneThatIsAlwaysRefused holds up no other client for good: they are served, although upstream says that
// it is full each time that it asks.
func TestOneThatIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 2", "wait 1h")
	p.Answer("lie", hermes.Replies(429, "application/json", limited, "Retry-After", "1"))
	lie := p.ask(chat, "key-1", "lie")
	lie.says("Waiting in line")
	for i := range 6 {
		p.ask(chat, fmt.Sprintf("other-%d", i%3), fmt.Sprintf("hello-%d", i)).good(chat)
	}
	p.leaves(lie)
	p.free(2)
}

// TestRefusedUntilTheWaitIsOver: the client gets Hermes' own 429, whatever that asks for; and it does
// not get that if a place comes free before.
func TestRefusedUntilTheWaitIsOver(t *testing.T) {
	t.Parallel()
	t.Run("over", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 10, "runs 5", "wait 3s")
		p.Answer("full", hermes.Replies(429, "application/json", limited, "Retry-After", "60", "X-Agent", "Hermes"))
		for name, k := range kinds {
			begun := time.Now()
			q := p.ask(k, "key-"+name, "full")
			status, body := q.ends()
			if time.Since(begun) < 3*time.Second {
				t.Errorf("%s: refused after %v", name, time.Since(begun))
			}
			if k.stream && !strings.Contains(body, "Too many concurrent runs (max 10)") || !k.stream && (status != 429 || body != limited || q.reply.Header.Get("X-Agent") != "Hermes" || q.reply.Header.Get("Retry-After") != "60") {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		p.free(5)
	})
	t.Run("not over", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 10, "runs 5")
		p.ask(chat, "key-1", "slow-1")
		p.Until(t, "slow-1")
		var full atomic.Bool
		full.Store(true)
		p.Answer("full", func(w http.ResponseWriter, r *http.Request) {
			if full.Load() {
				hermes.Replies(429, "application/json", limited, "Retry-After", "300")(w, r)
				return
			}
			hermes.Replies(200, "application/json", `{"content": "bye"}`)(w, r)
		})
		q := p.ask(whole, "key-2", "full")
		p.untilWaiting(1)
		full.Store(false)
		p.End("slow-1")
		q.good(whole)
		p.free(5)
	})
}

// TestManyLeaveAtOnce: a crowd that leaves in the moment in which its turns come takes no place with it.
func TestManyLeaveAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 0, "runs 3", "waiting 1000")
	for round := range 10 {
		var holders, all []*pending
		for i := range 3 {
			prompt := fmt.Sprintf("slow-%d-%d", round, i)
			holders = append(holders, p.ask(chat, "holder", prompt))
			p.Until(t, prompt)
		}
		for i := range 60 {
			all = append(all, p.ask(chat, fmt.Sprintf("key-%d", i%9), fmt.Sprintf("slow-crowd-%d", round)))
		}
		p.untilWaiting(60)
		p.Leaving(fmt.Sprintf("slow-crowd-%d", round))
		go func() {
			for i := range 3 {
				p.End(fmt.Sprintf("slow-%d-%d", round, i))
			}
		}()
		for _, q := range all {
			q.leave()
		}
		for _, q := range append(all, holders...) {
			<-q.done
		}
		harness.Until(t, "nothing waits or runs", func() bool { return p.metric("waiting") <= 0 && p.metric("running") <= 0 })
	}
	p.free(3)
}
