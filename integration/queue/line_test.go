package queue

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
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
			for _, wait := range []time.Duration{10 * time.Millisecond, 4 * time.Second} { // far from the second after which it is told
				late := newPlace(t, 10, "runs 1", "wait "+wait.String())
				late.ask(chat, "key-1", "slow-1")
				late.Until(t, "slow-1")
				atLeast := harness.AtLeast(t, wait)
				q := late.ask(k, "key-2", "too late")
				q.refused(k, "queue_timeout")
				atLeast()
				if began := q.reply.StatusCode == http.StatusOK; began && wait < time.Second || !began && k.stream && wait > time.Second {
					t.Errorf("after %v: %s", wait, q.reply.Status)
				}
				if late.Has("too late") {
					t.Error("upstream has heard of it")
				}
				for what, n := range map[string]float64{"timeout": 1, "admitted": 1} {
					if got := late.metric("requests_total", "outcome", what); got != n {
						t.Errorf("%v requests %s, want %v", got, what, n)
					}
				}
			}
		})
	}
}

// TestLeaving: a client that leaves the line loses its place at once, those after it move up and are told,
// and upstream never hears of it.
func TestLeaving(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10, "runs 1")
	p.ask(chat, "key-0", "slow-0")
	p.Until(t, "slow-0")
	var all []*pending
	for i, k := range []kind{chat, whole, session, chat, chat} {
		all = append(all, p.ask(k, fmt.Sprintf("key-%d", i%4), fmt.Sprintf("waits-%d", i)))
		p.untilWaiting(i + 1)
	}
	// Those of the client that has one are the last, whenever they came. A number that grows is not told, so only
	// those that come when the others are there can tell theirs.
	first, last := all[3], all[4]
	last.says("4 before you")
	first.says("2 before you")
	p.leaves(all[1])
	p.untilWaiting(4)
	first.says("1 before you")
	p.leaves(all[2])
	first.says("you are next")
	last.says("2 before you")
	p.End("slow-0")
	for _, q := range []*pending{first, all[0], last} {
		q.good(chat)
	}
	if heard := p.Heard(); !slices.Equal(heard, []string{"slow-0", "waits-3", "waits-0", "waits-4"}) {
		t.Errorf("upstream has heard %q", heard)
	}
	if n := p.metric("requests_total", "outcome", "left"); n != 2 {
		t.Errorf("%v have left", n)
	}
}

// TestRepeatsJoin: what an SDK sends again is no second run for hermes_resume, so it takes no second
// place, neither in line nor at upstream; and a run whose client has left holds its own.
func TestRepeatsJoin(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 10), site{resume: "detach 10m", queue: []string{"runs 1"}})
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
	strip := func(q *pending) *pending { // of hermes_resume's ids
		text := withoutIDs.ReplaceAllString(q.body.String(), "")
		q.body.Reset()
		q.body.WriteString(text)
		return q
	}
	<-again.done
	<-other.done
	strip(again).good(chat)
	strip(other).good(chat)
	if heard := p.Heard(); len(heard) != 3 {
		t.Errorf("upstream has heard %q", heard)
	}
	if p.MostAtOnce() > 1 {
		t.Errorf("%d at once", p.MostAtOnce())
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

// TestLeftChatsCountAtUpstream: a chat whose client has left gives its place back when its connection is
// closed. Hermes counts it for a while longer, and what its 429 hits waits.
func TestLeftChatsCountAtUpstream(t *testing.T) {
	t.Parallel()
	a := hermes.New(t, 2)
	a.Lingers = time.Hour
	p := newPlaceOf(t, a, site{queue: []string{"runs 2"}})
	p.ask(chat, "key-1", "slow-0")
	left := p.ask(chat, "key-1", "slow-1")
	p.Until(t, "slow-0", "slow-1")
	p.leaves(left)
	after := p.ask(whole, "key-2", "after")
	harness.Until(t, "Hermes refuses it", func() bool { return p.Refusals() > 0 })
	if p.Has("after") {
		t.Error("Hermes takes it")
	}
	p.Forget()
	after.good(whole)
	if p.MostAtOnce() > 2 {
		t.Errorf("%d at once", p.MostAtOnce())
	}
}

// TestAnswersAtOnce: with free places, each answer is what it is without a line: also an error that
// is upstream's own, such as a 429 that is not Hermes' refusal. The agent may have begun, and is not asked again.
func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10)
	for name, k := range kinds {
		p.ask(k, "key-1", "hello "+name).good(k)
	}
	for status, body := range map[int]string{
		401: `{"error": {"message": "Invalid API key", "code": "invalid_api_key"}}`,
		429: `{"error": {"message": "Rate limit reached for gpt-5", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}`, // of the model's provider
	} {
		prompt, asked := fmt.Sprint(status), new(atomic.Int32)
		reply := hermes.Replies(status, "application/json", body, "Retry-After", "1")
		p.Answer(prompt, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			reply(w, r)
		})
		for range 20 {
			q := p.ask(chat, "key-1", prompt)
			if got, text := q.ends(); got != status || text != body || q.reply.Header.Get("Retry-After") != "1" {
				t.Errorf("%d %s", got, text)
			}
		}
		if n := asked.Load(); n != 20 {
			t.Errorf("%d: the agent was asked %d times", status, n)
		}
	}
	if n := p.metric("refused_total"); n > 0 {
		t.Errorf("%v refusals", n)
	}
	if n := p.metric("running"); n > 1 { // that of a run, until it is asked
		t.Errorf("%v run", n)
	}
}

// TestPages: the header of a request of a page that waits says what upstream has said to the preflight of
// its origin, and nothing to the page of another one, also after a reload.
func TestPages(t *testing.T) {
	t.Parallel()
	const page = "https://chat.example"
	a := hermes.New(t, 10)
	a.Origin = page
	s := site{queue: []string{"runs 1"}}
	p := newPlaceOf(t, a, s)
	p.ask(chat, "holder", "slow-1")
	p.Until(t, "slow-1")
	for _, k := range []kind{chat, responses, session} {
		for _, origin := range []string{page, "https://evil.example"} {
			p.send(http.MethodOptions, k.path, "", "preflight", "Origin", origin, "Access-Control-Request-Method", "POST").ends()
		}
	}
	p.load(site{queue: []string{"runs 1"}, hermes: []string{"max_frame 2MiB"}})
	for name, k := range map[string]kind{"chat": chat, "responses": responses, "session": session} {
		for origin, want := range map[string]string{page: page, "https://evil.example": "", "https://never.heard": ""} {
			q := p.ask(k, "key-1", name, "Origin", origin)
			q.says("Waiting in line")
			if got := q.reply.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s to %s allows %q", name, origin, got)
			}
			if got := q.reply.Header.Get("Vary"); (got == "Origin") != (want != "") {
				t.Errorf("%s to %s varies by %q", name, origin, got)
			}
			p.leaves(q)
		}
	}
	// A browser would throw away what comes before it knows that the page may read it.
	q := p.ask(chat, "key-1", "asked", "Origin", page, "Sec-Fetch-Site", "cross-site", "X-Other", "path")
	q.says("Waiting in line")
	p.leaves(q)
	q = p.send(http.MethodPost, "/p/other"+chat.path, fmt.Sprintf(chat.body, `"other"`), "other", "Origin", page, "Sec-Fetch-Site", "cross-site")
	p.untilWaiting(1)
	p.End("slow-1")
	q.good(chat)
	if got := q.reply.Header.Get("Access-Control-Allow-Origin"); got != page || len(q.waited()) > 0 {
		t.Errorf("allows %q, was told %d", got, q.waited())
	}
	p.free(1)
}
