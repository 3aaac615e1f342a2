package queue

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// TestTheNextWaits: eight run, and the ninth of any kind waits until one has ended. If it asks for a
// stream, it is told after a second; if not, it just waits.
func TestTheNextWaits(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceOf(t, hermes.New(t, 10), site{hermes: []string{"keepalive 200ms"}})
			for i := range 8 {
				p.ask(chat, fmt.Sprintf("key-%d", i), fmt.Sprintf("slow-%d", i))
				p.Until(t, fmt.Sprintf("slow-%d", i))
			}
			aSecond := harness.AtLeast(t, time.Second)
			q := p.ask(k, "key-9", "the ninth")
			if k.stream {
				q.says("Waiting in line: you are next")
				aSecond()
				harness.Until(t, "keepalives come", func() bool { return strings.Count(q.status.String(), "\n\n") > 4 })
				if ct := q.reply.Header.Get("Content-Type"); q.reply.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
					t.Errorf("%s %s", q.reply.Status, ct)
				}
				if strings.Count(q.status.String(), `"text": "Waiting in line`) != 1 {
					t.Errorf("it is told again and again: %s", q.status.String())
				}
			} else {
				p.untilWaiting(1)
			}
			if p.Has("the ninth") {
				t.Error("upstream hears of one that waits")
			}
			p.End("slow-3")
			q.good(k)
			if p.MostAtOnce() != 8 {
				t.Errorf("%d were at upstream at once", p.MostAtOnce())
			}
		})
	}
}

// TestRefusals: who finds no room gets 429 at once, who waits too long gets it then, or the error finish
// if its header has left.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := newPlace(t, 10, "runs 1", "waiting 1")
			full.ask(chat, "key-1", "slow-1")
			full.Until(t, "slow-1")
			waits := full.ask(k, "key-1", "waits")
			full.untilWaiting(1)
			for _, key := range []string{"key-1", "key-2"} {
				full.ask(k, key, "too many").refused(k, "queue_full")
			}
			full.End("slow-1")
			waits.good(k)
			late := func(t testing.TB, wait time.Duration) (status int) {
				p := newPlace(t, 10, "runs 1", "wait "+wait.String())
				p.ask(chat, "key-1", "slow-1")
				p.Until(t, "slow-1")
				atLeast := harness.AtLeast(t, wait)
				q := p.ask(k, "key-2", "too late")
				q.refused(k, "queue_timeout")
				atLeast()
				if p.Has("too late") {
					t.Error("upstream has heard of it")
				}
				for what, n := range map[string]float64{"timeout": 1, "admitted": 1} {
					if got := p.metric("requests_total", "outcome", what); got != n {
						t.Errorf("%v requests %s, want %v", got, what, n)
					}
				}
				return q.reply.StatusCode
			}
			late(t, 10*time.Millisecond)
			// A client of a stream is told its place after a second, if the machine is fast enough.
			harness.AtAnyPace(t, 1500*time.Millisecond, func(t testing.TB, wait time.Duration) {
				if status := late(t, wait); k.stream != (status == http.StatusOK) {
					t.Errorf("after %v: %d", wait, status)
				}
			})
		})
	}
}

// TestRepeatsJoin: what an SDK sends again is no second run for hermes_resume, wherever that is, so it takes
// no second place, neither in line nor at upstream; and a run whose client has left holds its own.
func TestRepeatsJoin(t *testing.T) {
	t.Parallel()
	const resumed = "hermes_resume {\ndetach 10m\n}\n"
	for name, route := range map[string]string{
		"in front": resumed + oneRun, "after it": oneRun + resumed, "on both ends": oneRun + resumed + oneRun,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceOf(t, hermes.New(t, 10), site{route: route + "hermes_proxy AGENT"})
			first := p.ask(chat, "key-1", "slow-1", "Idempotency-Key", "a")
			p.Until(t, "slow-1")
			waits := p.ask(chat, "key-1", "slow-2", "Idempotency-Key", "b")
			p.untilWaiting(1)
			again := p.ask(chat, "key-1", "slow-2", "Idempotency-Key", "b")
			<-again.header
			other := p.ask(chat, "key-2", "other", "Idempotency-Key", "c")
			p.untilWaiting(2)
			first.leave()
			<-first.done
			// other's client has nothing, so it is next, but the run of the client that left goes on.
			other.says("you are next")
			if p.Running() != 1 || p.Has("other") {
				t.Errorf("upstream has heard %q", p.Heard())
			}
			waits.leave()
			<-waits.done
			p.End("slow-1")
			p.Until(t, "other", "slow-2")
			p.End("slow-2")
			for _, q := range []*pending{again, other} {
				if _, body := q.ends(); !strings.Contains(body, "bye") || !strings.Contains(body, "[DONE]") {
					t.Errorf("%s: %s", q.prompt, body)
				}
			}
			if heard := p.Heard(); len(heard) != 3 || p.MostAtOnce() > 1 {
				t.Errorf("upstream has heard %q, %d at once", heard, p.MostAtOnce())
			}
		})
	}
}

// TestUpstreamsLimit: Hermes' own 429 sends a request of any kind back into the line. No client sees it, and
// upstream is not asked in a stampede: as long as it is full, one request asks.
func TestUpstreamsLimit(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2, "runs 8")
	for i := range 2 {
		p.ask(chat, "other", fmt.Sprintf("slow-%d", i))
		p.Until(t, fmt.Sprintf("slow-%d", i))
	}
	all := map[*pending]kind{}
	begun := time.Now()
	for i := range 4 {
		for name, k := range kinds {
			all[p.ask(k, fmt.Sprintf("key-%d", i), fmt.Sprintf("%s %d", name, i))] = k
		}
	}
	harness.Until(t, "upstream refuses", func() bool { return p.Refusals() > 0 })
	p.untilWaiting(len(all))
	before, at := p.Refusals(), time.Now()
	if before > 8+int(at.Sub(begun)/time.Second) {
		t.Errorf("upstream was asked %d times in %v", before, at.Sub(begun))
	}
	harness.Until(t, "it is asked again", func() bool { return p.Refusals() >= before+2 })
	if most := int(time.Since(at)/time.Second) + 2; p.Refusals()-before > most {
		t.Errorf("upstream was asked %d times in %v", p.Refusals()-before, time.Since(at))
	}
	p.Release()
	for q, k := range all {
		q.good(k)
	}
	if n := p.metric("refused_total"); n != float64(p.Refusals()) {
		t.Errorf("counted are %v refusals of %d", n, p.Refusals())
	}
	if n := len(p.Heard()); n != 2+len(all) {
		t.Errorf("upstream has worked for %d requests", n)
	}
}

// TestPages: the header of a request of a page that waits says what upstream has said to the preflight of
// its origin, and nothing to the page of another one, also after a reload.
func TestPages(t *testing.T) {
	t.Parallel()
	const page, evil = "https://chat.example", "https://evil.example"
	a := hermes.New(t, 10)
	a.Origin = page
	p := newPlaceOf(t, a, site{queue: []string{"runs 1"}})
	p.ask(chat, "holder", "slow-1")
	p.Until(t, "slow-1")
	for _, origin := range []string{page, evil} {
		p.send(http.MethodOptions, chat.path, "", "preflight", "Origin", origin, "Access-Control-Request-Method", "POST").ends()
	}
	p.load(site{queue: []string{"runs 1"}, hermes: []string{"max_frame 2MiB"}})
	for origin, want := range map[string]string{page: page, evil: "", "https://never.heard": ""} {
		q := p.ask(chat, "key-1", "asks", "Origin", origin)
		q.says("Waiting in line")
		if h := q.reply.Header; h.Get("Access-Control-Allow-Origin") != want || (h.Get("Vary") == "Origin") != (want != "") {
			t.Errorf("to %s: %v", origin, h)
		}
		p.leaves(q)
	}
}
