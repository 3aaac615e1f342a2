package resume_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestOthersGetNothing has a client with other credentials, or at another path, ask for a
// stream: the answer is the one for a stream that never was, to the byte.
func TestOthersGetNothing(t *testing.T) {
	l := newLab(t, nil, streams(events(3), always()))
	mine := l.send(post(key, "k", "Authorization", "Bearer a", "Cookie", "s=1")).want(http.StatusOK)
	id := mine.id()
	whole := mine.rest()
	never := "stream_" + strings.Repeat("A", 22)
	ask := func(method, path, id string, header ...string) (int, string) {
		t.Helper()
		q := request{method, path, "", append(header, "Last-Event-ID", id+"/1")}
		if method != http.MethodPost {
			q.path += "/" + id
		}
		r := l.send(q)
		return r.StatusCode, r.rest()
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		for name, header := range map[string][]string{
			"no credentials":      nil,
			"another key":         {"Authorization", "Bearer b", "Cookie", "s=1"},
			"another cookie":      {"Authorization", "Bearer a", "Cookie", "s=2"},
			"no cookie":           {"Authorization", "Bearer a"},
			"a key of another":    {"Authorization", "Bearer a", "Cookie", "s=1", "X-Api-Key", "x"},
			"two keys":            {"Authorization", "Bearer a", "Authorization", "", "Cookie", "s=1"},
			"moved to the cookie": {"Authorization", "Bearer", "Cookie", "as=1"},
		} {
			status, body := ask(method, otherPath, id, header...)
			neverStatus, neverBody := ask(method, otherPath, never, header...)
			if status != http.StatusNotFound || status != neverStatus || body != neverBody {
				t.Errorf("%s, %s: %d %s, want %d %s", method, name, status, body, neverStatus, neverBody)
			}
		}
		if status, _ := ask(method, "/elsewhere", id, "Authorization", "Bearer a", "Cookie", "s=1"); status != http.StatusNotFound {
			t.Errorf("%s elsewhere: %d", method, status)
		}
	}
	// Each client has keys of its own.
	l.wantAsked(1)
	theirs := l.send(post(key, "k", "Authorization", "Bearer b")).want(http.StatusOK)
	if theirs.id() == id || theirs.Header.Get("Idempotency-Replayed") != "" {
		t.Error("another's key is known")
	}
	l.wantAsked(2)
	if again := l.send(post(key, "k", "Authorization", "Bearer a", "Cookie", "s=1")).want(http.StatusOK); again.rest() != whole {
		t.Error("it has changed")
	}
	l.wantAsked(2)
}

func TestSameKeyWithAnotherBody(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	first := l.send(post(key, "k"))
	id := first.id()
	first.rest()
	ofNoKey := l.send(post(resume.DetachHeader, "1m")).id()
	for _, c := range []struct {
		q          request
		body, says string
	}{
		{post(key, "k"), `{"stream":true,"messages":[1]}`, "another request body"},
		{post(key, "k"), `{"stream": true,"messages":[]}`, "another request body"}, // the same to a reader of JSON
		{post(key, "k", "Last-Event-ID", id+"/1"), `{"stream":true,"messages":[1]}`, "another request body"},
		{post(key, "another", "Last-Event-ID", id+"/1"), asking, "Leave out the key"},
		{post(key, "k", "Last-Event-ID", ofNoKey+"/1"), asking, "Leave out the key"},
	} {
		c.q.body = c.body
		if p := problemOf(t, l.send(c.q), http.StatusUnprocessableEntity); !strings.Contains(p["detail"].(string), c.says) {
			t.Errorf("problem %v", p)
		}
	}
	if got := l.send(post(key, "k", "Last-Event-ID", id+"/1")).want(http.StatusOK); got.rest() != numbered(id, 2, event(2)) || got.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("not continued")
	}
	elsewhere := post(key, "k")
	elsewhere.path = "/elsewhere"
	if got := l.send(elsewhere).want(http.StatusOK).id(); got == id {
		t.Error("another path has the same stream")
	}
	query := post(key, "k")
	query.path += "?a=1"
	if got := l.send(query).want(http.StatusOK).id(); got == id {
		t.Error("another query has the same stream")
	}
	l.wantAsked(4)
}

// TestHead of a stream is answered as GET, without a body, and does not ask upstream.
func TestHead(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(2), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k")).want(http.StatusOK)
	id := first.id()
	head := func(id string, header ...string) *reply {
		t.Helper()
		return l.send(request{http.MethodHead, otherPath + "/" + id, "", header})
	}
	for range 2 { // while it goes on, and after
		for _, header := range [][]string{nil, {"Last-Event-ID", id + "/1"}} {
			if r := head(id, header...).want(http.StatusOK); r.id() != id || r.Header.Get("Content-Type") != "text/event-stream" || r.rest() != "" {
				t.Errorf("header %v", r.Header)
			}
		}
		head(id, "Last-Event-ID", id+"/3").want(http.StatusBadRequest)
		head("stream_" + strings.Repeat("A", 22)).want(http.StatusNotFound)
		head(id, "Authorization", "Bearer b").want(http.StatusNotFound)
		if st := l.runs.Stats(); st.TotalAttached[resume.HowReplayed]+st.TotalAttached[resume.HowContinued] != 0 {
			t.Errorf("counted as a client: %+v", st)
		}
		if each != nil {
			close(each)
			first.rest()
			each = nil
		}
	}
	head(id, "Last-Event-ID", id+"/2").want(http.StatusNoContent)
	l.wantAsked(1)
}

func TestDeleteEndsAStream(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(3), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k"))
	id := first.id()
	first.next()
	deleted := l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}).want(http.StatusNoContent)
	if deleted.rest() != "" {
		t.Error("204 with a body")
	}
	if e := l.over(); e.Reason != log.ReasonDeleted {
		t.Errorf("ended for %v", e.Reason)
	}
	first.broken() // it is no stream of Hermes', which would have an error finish
	problemOf(t, l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	problemOf(t, l.send(request{http.MethodGet, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	l.wantAsked(1)
	go close(each)
	again := l.send(post(key, "k")).want(http.StatusOK)
	if again.id() == id || again.rest() != numbered(again.id(), 1, events(3)...) {
		t.Error("the key is not free")
	}
	l.wantAsked(2)
	l.send(request{http.MethodDelete, otherPath + "/" + again.id(), "", nil}).want(http.StatusNoContent) // which has ended
	l.wantEmpty()
}

// TestTheNextOneRunsIfTheFirstFails lets a request that waits for the answer of an equal
// one run itself, when that is no stream.
func TestTheNextOneRunsIfTheFirstFails(t *testing.T) {
	begun, fail := make(chan struct{}), make(chan struct{})
	calls := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		if calls++; calls == 1 {
			close(begun)
			<-fail
			http.Error(w, "no", http.StatusBadGateway)
			return nil
		}
		return streams(events(2), always())(w, r)
	})
	answers := make(chan *reply, 2)
	for range 2 {
		go func() {
			if r, err := l.try(post(key, "k")); err == nil {
				answers <- r
			}
		}()
		<-begun
	}
	close(fail)
	got := map[int]int{}
	for range 2 {
		got[(<-answers).StatusCode]++
	}
	if got[http.StatusBadGateway] != 1 || got[http.StatusOK] != 1 {
		t.Errorf("statuses %v", got)
	}
	l.wantAsked(2)
}

// TestStoreThatIsAway lets new requests pass as they are. A client that asks for a stream is told
// to come again: if it were told that there is none, it would ask upstream a second time.
func TestStoreThatIsAway(t *testing.T) {
	var away atomic.Bool
	fails := func() error { return map[bool]error{true: errAway}[away.Load()] }
	l := newLab(t, func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, claim: func(int64) error { return fails() }, find: func(string) error { return fails() }}
	}, streams(events(2), always()))
	first := l.send(post(key, "a"))
	id := first.id()
	whole := first.rest()

	away.Store(true)
	if r := l.send(post(key, "b")).want(http.StatusOK); r.id() != "" || r.rest() != event(1)+event(2) {
		t.Error("it does not pass as it is")
	}
	for _, q := range []request{
		{http.MethodGet, otherPath + "/" + id, "", nil},
		{http.MethodHead, otherPath + "/" + id, "", nil},
		{http.MethodDelete, otherPath + "/" + id, "", nil},
		post("Last-Event-ID", id+"/1"),
	} {
		r := l.send(q).want(http.StatusServiceUnavailable)
		if r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") != "1" || r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: header %v", q.method, r.Header)
		}
	}
	l.wantAsked(2)

	away.Store(false)
	if got := l.send(post(key, "a")).want(http.StatusOK).rest(); got != whole {
		t.Errorf("then it is %q", got)
	}
}

// TestRandomSequences has clients attach, leave, repeat, continue and delete at random and
// at once, while configurations change and one in a while the process drains: upstream
// is asked once for a key, as long as no client deletes its stream, and each client gets
// the stream, to the byte.
func TestRandomSequences(t *testing.T) {
	rounds, atOnce := 200, 16
	if s := os.Getenv("HERMES_RESUME_SEQUENCES"); s != "" { // more of them
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for round := worker; round < rounds; round += atOnce {
				s := &sequence{t: t, seed: seed + uint64(round), ids: map[string]string{}}
				s.run(4, 2+round%6)
			}
		})
	}
	all.Wait()
}

// sequence is a round of TestRandomSequences.
type sequence struct {
	t       *testing.T
	seed    uint64
	mu      sync.Mutex
	asked   map[string]int    // how many times upstream was, by the key
	deleted map[string]int    // how many times a stream was, likewise
	ids     map[string]string // of the streams that clients know, likewise
	p       *resume.Resume
}

const eventsOfSequence = 12

func (s *sequence) run(clients, steps int) {
	s.asked, s.deleted = map[string]int{}, map[string]int{}
	store, secret, runs := log.NewMemory(), resume.NewSecret(), new(resume.Runs)
	reload := func() {
		o := resume.DefaultOptions()
		o.Store, o.Secret, o.Runs = store, secret, runs
		s.mu.Lock()
		s.p = resume.New(o)
		s.mu.Unlock()
	}
	reload()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		p := s.p
		s.mu.Unlock()
		_ = p.Serve(w, r, s.next)
	}))
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(s.seed, uint64(c)))
			for range steps {
				if r.IntN(20) == 0 {
					reload()
				}
				s.step(r, srv)
			}
		})
	}
	all.Wait()
	runs.Shutdown(time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv.Close() // a request whose client has left may still come to its handler
	runs.Wait(ctx)
	if st := runs.Stats(); runs.Open() != 0 || st.Detached != 0 || st.Readers != 0 {
		s.t.Errorf("seed %d: %d are open, stats %+v", s.seed, runs.Open(), st)
	}
	for key, n := range s.asked {
		if n > 1+s.deleted[key] {
			s.t.Errorf("seed %d: upstream was asked %d times for %s, deleted were %d", s.seed, n, key, s.deleted[key])
		}
	}
}

// next is upstream, which takes its time.
func (s *sequence) next(w http.ResponseWriter, r *http.Request) error {
	key := r.Header.Get(key)
	s.mu.Lock()
	s.asked[key]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 1; n <= eventsOfSequence; n++ {
		if n%4 == 0 {
			select {
			case <-r.Context().Done():
				return context.Cause(r.Context())
			case <-time.After(time.Millisecond):
			}
		}
		if _, err := io.WriteString(w, event(n)); err != nil {
			return err
		}
		_ = http.NewResponseController(w).Flush()
	}
	return nil
}

// step does one thing as a client.
func (s *sequence) step(r *rand.Rand, srv *httptest.Server) {
	k := fmt.Sprintf("key%d", r.IntN(3))
	s.mu.Lock()
	known := s.ids[k]
	s.mu.Unlock()
	at := r.IntN(eventsOfSequence)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.IntN(4) == 0 { // it leaves, whatever there is
		time.AfterFunc(time.Duration(r.IntN(6))*time.Millisecond, cancel)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+chatPath, strings.NewReader(asking))
	if err != nil {
		s.t.Error(err)
		return
	}
	from := 0
	switch what := r.IntN(8); {
	case what == 0 && known != "":
		req.Method, req.URL.Path, req.Body = http.MethodDelete, chatPath+"/"+known, nil
		s.mu.Lock() // before it is: others may ask as soon as it is
		s.deleted[k]++
		s.mu.Unlock()
	case what <= 3 && known != "":
		from = at
		req.Header.Set("Last-Event-ID", fmt.Sprintf("%s/%d", known, at))
		if what == 3 {
			req.Header.Set(key, k)
		}
	default:
		req.Header.Set(key, k)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		return // it has left
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	id := res.Header.Get(resume.StreamHeader)
	switch {
	case req.Method == http.MethodDelete, res.StatusCode == http.StatusNotFound,
		res.StatusCode == http.StatusUnprocessableEntity && s.wasDeleted(k): // the key is another stream's now
		return
	case res.StatusCode == http.StatusBadRequest && from > 0: // it has not come so far
		return
	case res.StatusCode != http.StatusOK || id == "":
		s.t.Errorf("seed %d: %s %s", s.seed, res.Status, b)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[k] == "" || from == 0 {
		s.ids[k] = id
	}
	whole := numbered(id, from+1, events(eventsOfSequence)[from:]...)
	got := string(b)
	if len(got) > len(whole) { // it was deleted, and ends with an error
		got = got[:0]
	}
	if i := strings.Index(got, `data: {"error"`); i >= 0 {
		got = got[:i]
	}
	if !strings.HasPrefix(whole, got) || err == nil && len(got) < len(whole) && s.deleted[k] == 0 {
		s.t.Errorf("seed %d: after %d of %s came\n%q\nwant\n%q (%v)", s.seed, from, k, b, whole, err)
	}
}

func (s *sequence) wasDeleted(k string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[k] > 0
}

// TestLogsOfAKeyHaveOnePlace uses a key twice, and others once.
func TestLogsOfAKeyHaveOnePlace(t *testing.T) {
	l := newLab(t, nil, streams(events(1), always()))
	id := func(k string) string {
		r := l.send(post(key, k)).want(http.StatusOK)
		r.rest()
		l.send(request{http.MethodDelete, otherPath + "/" + r.id(), "", nil}).want(http.StatusNoContent)
		return r.id()
	}
	first, again := id("k"), id("k")
	if first == again || log.Place(first) != log.Place(again) {
		t.Errorf("%s, then %s", first, again)
	}
	places := make(map[string]bool)
	for n := range 10 {
		places[log.Place(id(strconv.Itoa(n)))] = true
	}
	if len(places) < 5 {
		t.Errorf("ten keys have the places %v", places)
	}
}
