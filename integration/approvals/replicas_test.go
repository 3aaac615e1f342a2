package approvals

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// secret is what replicas have in common.
const (
	secret         = "SECRET-of-replicas-0123456789abcdef"
	replicasSecret = "REPLICAS_SECRET=" + secret // of their environment
)

// A fleet has replicas, each in front of an agent of its own, behind a balancer that leads each request for
// a page to the next one.
type fleet struct {
	t        *testing.T
	replicas []*place
	lines    []string
	front    *httptest.Server
	next     atomic.Int64
	mu       sync.Mutex
	out      map[string]bool // addresses that the balancer does not use
}

// newFleet starts n replicas whose handlers have those lines.
func newFleet(t *testing.T, n int, lines ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, out: map[string]bool{}}
	f.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harness.ProxyTo(f.turn()).ServeHTTP(w, r)
	}))
	t.Cleanup(f.front.Close)
	replicas := "approvals replicas"
	for range n {
		p := preparePlace(t, hermes.New(t, 0))
		p.On("go", asksOnce(danger)...)
		replicas += " " + p.api
		f.replicas = append(f.replicas, p)
	}
	f.lines = append(lines, "approvals link "+f.front.URL+"/hermes/approve text", replicas+" {env.REPLICAS_SECRET}")
	for _, p := range f.replicas {
		p.start(t, f.lines, replicasSecret)
	}
	return f
}

// turn returns the address whose turn it is.
func (f *fleet) turn() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		p := f.replicas[int(f.next.Add(1))%len(f.replicas)]
		if addr := strings.TrimPrefix(p.page, "http://"); !f.out[addr] {
			return addr
		}
	}
}

// leave takes a replica away from the balancer.
func (f *fleet) leave(p *place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out[strings.TrimPrefix(p.page, "http://")] = true
}

// join brings it back.
func (f *fleet) join(p *place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.out, strings.TrimPrefix(p.page, "http://"))
}

// at is a person whose chats reach a replica.
func (f *fleet) at(i int, user string) person {
	return person{t: f.t, at: f.replicas[i], key: "key-1", user: user}
}

// TestALinkIsAnsweredAtAnyReplica: of many clicks all over them one counts, and every page says the same.
func TestALinkIsAnsweredAtAnyReplica(t *testing.T) {
	f := newFleet(t, 3, resume+"always\nkey {method} body", beside+"hermes_queue\nhermes_streams /hermes/streams")
	for i := range f.replicas {
		me := f.at(i, "")
		a := me.asks("go").wait()
		for range 3 {
			if s := me.visits(a.url); s.status != http.StatusOK || !strings.Contains(s.words(), danger) || !slices.Contains(s.buttons(), "once") {
				t.Errorf("replica %d: the page says %d %s", i, s.status, s.words())
			}
		}
		statuses := make(chan int, 12)
		var clicks sync.WaitGroup
		for n := range cap(statuses) {
			clicks.Go(func() {
				s := me.presses(a.url, []string{"once", "deny", "session"}[n%3])
				if s.status == http.StatusConflict && !strings.Contains(s.words(), "Already answered") {
					t.Errorf("%s", s.words())
				}
				statuses <- s.status
			})
		}
		clicks.Wait()
		close(statuses)
		count := map[int]int{}
		for s := range statuses {
			count[s]++
		}
		if count[http.StatusOK] != 1 || count[http.StatusConflict] != 11 {
			t.Errorf("replica %d: statuses %v", i, count)
		}
		a.ends()
		for j, p := range f.replicas {
			q := p.Questions()
			if want := map[bool]int{true: 1, false: 0}[j <= i]; len(q) != want || want == 1 && len(q[0].Choices) != 1 {
				t.Errorf("replica %d: the agent of %d has %+v", i, j, q)
			}
		}
		for range 3 {
			if s := me.visits(a.url); s.status != http.StatusOK || !strings.Contains(s.words(), "Already answered") {
				t.Errorf("replica %d: afterwards %d %s", i, s.status, s.words())
			}
		}
	}
	for i, p := range f.replicas {
		if list := f.at(i, "").list(); strings.Contains(list, "/hermes/replicas") {
			t.Errorf("hermes_resume keeps what replicas ask: %s", list)
		}
		if log := p.caddy.Log.String(); strings.Contains(log, secret) || strings.Contains(log, "key-1") || strings.Contains(log, danger) {
			t.Error("the log has a secret or a command")
		}
	}
}

// TestUsersCountAtAnyReplica: a page knows its visitor by its own login, whoever says something else.
func TestUsersCountAtAnyReplica(t *testing.T) {
	f := newFleet(t, 3, byUser, onPage+"by {header.X-Login}")
	ann := f.at(0, "ann")
	a := ann.asks("go").wait()
	browse := func(method, user string, header ...string) sheet {
		if method == http.MethodPost {
			header = append(header, "Content-Type", "application/x-www-form-urlencoded", "Origin", f.front.URL, "Sec-Fetch-Site", "same-origin")
		}
		return ann.browses(method, a.url, "choice=once", append(header, "X-Login", user)...)
	}
	for range 3 {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if s := browse(method, "bob", "X-User", "ann", "X-Hermes-Replica", "ann"); s.status != http.StatusNotFound || strings.Contains(s.text, danger) {
				t.Errorf("bob: %s %d %s", method, s.status, s.words())
			}
		}
		if s := browse(http.MethodGet, "ann"); s.status != http.StatusOK || !strings.Contains(s.words(), "Only ann") {
			t.Errorf("ann: %d %s", s.status, s.words())
		}
	}
	f.replicas[0].WantUnanswered(t, "bob")
	f.next.Store(0) // the next one is not the one that asks
	if s := browse(http.MethodPost, "ann"); s.status != http.StatusOK {
		t.Errorf("ann: %d %s", s.status, s.words())
	}
	a.ends()
	f.replicas[0].WantRan(t, danger, 1)
	if !f.replicas[1].caddy.Await(`"msg":"approval answered","way":"page","user":"ann"`) {
		t.Error("the log does not say who has answered")
	}
	// Another origin is refused everywhere.
	a = f.at(0, "ann").asks("go").wait()
	for range 3 {
		s := ann.browses(http.MethodPost, a.url, "choice=once", "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://evil.example", "X-Login", "ann")
		if s.status != http.StatusForbidden {
			t.Errorf("another origin: %d %s", s.status, s.words())
		}
	}
	f.replicas[0].WantRan(t, danger, 1)
}

// TestPageBesideTheAPI: where a site has all, as that of the chart, its page does not go to Hermes, and a user that
// only hermes knows need not be known to the page.
func TestPageBesideTheAPI(t *testing.T) {
	f := newFleet(t, 2, byUser, beside+"hermes_approvals")
	me := f.at(0, "ann")
	a := me.asks("go").wait()
	page := f.replicas[1].api + strings.TrimPrefix(a.url, f.front.URL)
	if s := me.visits(page); s.status != http.StatusOK || !strings.Contains(s.words(), danger) {
		t.Errorf("the page says %d %s", s.status, s.words())
	}
	s := me.browses(http.MethodPost, page, "choice=deny", "Content-Type", "application/x-www-form-urlencoded", "Origin", f.front.URL, "Sec-Fetch-Site", "same-origin")
	if s.status != http.StatusOK || !strings.Contains(s.words(), "Denied") {
		t.Errorf("pressed: %d %s", s.status, s.words())
	}
	if got := textOf(a.ends()); !strings.HasSuffix(got, "Done: deny") {
		t.Errorf("the answer is %q", got)
	}
	if heard := slices.Concat(f.replicas[1].Heard(), f.replicas[1].Paths()); len(heard) != 0 {
		t.Errorf("the other agent has heard %q", heard)
	}
}

// TestReplicaThatIsKilled: what it was asked is too late, at once, on every page. If something else is at its
// address, nobody knows. What others were asked is there as before.
func TestReplicaThatIsKilled(t *testing.T) {
	f := newFleet(t, 3)
	killed, me := f.replicas[0], f.at(0, "")
	a, b := me.asks("go").wait(), f.at(1, "").asks("go").wait()
	f.leave(killed)
	killed.caddy.Kill() // kill -9
	for range 3 {
		if s := me.visits(a.url); s.status != http.StatusGone || !strings.Contains(s.words(), "Too late") {
			t.Errorf("the page says %d %s", s.status, s.words())
		}
		if s := me.presses(a.url, "once"); s.status != http.StatusConflict || !strings.Contains(s.words(), "Too late") {
			t.Errorf("pressed: %d %s", s.status, s.words())
		}
		if s := me.visits(a.url[:len(a.url)-1] + "_"); s.status != http.StatusNotFound {
			t.Errorf("another link: %d %s", s.status, s.words())
		}
	}
	ln, err := net.Listen("tcp", strings.TrimPrefix(killed.api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Listener.Close()
	other.Listener = ln
	other.Start()
	t.Cleanup(other.Close)
	for _, s := range []sheet{me.visits(a.url), me.presses(a.url, "once")} {
		if s.status != http.StatusServiceUnavailable || s.header.Get("Retry-After") == "" || !strings.Contains(s.words(), "Not now") {
			t.Errorf("beside a stranger, the page says %d %s", s.status, s.words())
		}
	}
	if s := me.presses(b.url, "once"); s.status != http.StatusOK {
		t.Errorf("of another replica: %d %s", s.status, s.words())
	}
	b.ends()
	killed.WantRan(t, danger, 0)
	f.replicas[1].WantRan(t, danger, 1)
}

// TestRollingRestart: as long as a replica runs, its links work at the others, also when no client reaches it any
// more. Then those without an answer are too late. Those of others live on, and so does what the new one asks.
func TestRollingRestart(t *testing.T) {
	f := newFleet(t, 3, "drain_timeout 0s")
	me := f.at(0, "")
	var chats [][2]*held
	for i := range f.replicas {
		chats = append(chats, [2]*held{f.at(i, "").asks("go").wait(), f.at(i, "").asks("go").wait()})
	}
	for i, p := range f.replicas {
		f.leave(p)
		if s := me.presses(chats[i][0].url, "once"); s.status != http.StatusOK {
			t.Errorf("%d, before it stops: %d %s", i, s.status, s.words())
		}
		chats[i][0].ends()
		p.caddy.Terminate()
		p.caddy.Exit()
		tooLate := func(when string) {
			t.Helper()
			for range 2 {
				if s := me.presses(chats[i][1].url, "once"); s.status != http.StatusConflict || !strings.Contains(s.words(), "Too late") {
					t.Errorf("%d, %s: %d %s", i, when, s.status, s.words())
				}
			}
		}
		tooLate("stopped")
		p.start(t, f.lines, replicasSecret)
		tooLate("started again")
		f.join(p)
		a := f.at(i, "").asks("go").wait()
		if s := me.presses(a.url, "once"); s.status != http.StatusOK {
			t.Errorf("%d, asked after that: %d %s", i, s.status, s.words())
		}
		a.ends()
		p.WantRan(t, danger, 2)
	}
}
