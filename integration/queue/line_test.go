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
