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
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// atRandom calls round with many seeds, some of them at once. HERMES_RESUME_SEQUENCES says how many.
func atRandom(t *testing.T, rounds, atOnce int, round func(n int, seed uint64)) {
	t.Helper()
	if s := os.Getenv("HERMES_RESUME_SEQUENCES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	first := uint64(time.Now().UnixNano())
	t.Logf("seed %d", first)
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for n := worker; n < rounds && !t.Failed(); n += atOnce {
				round(n, first+uint64(n))
			}
		})
	}
	all.Wait()
}

// crowd is a site and its clients, which do things at random and at once.
type crowd struct {
	t    *testing.T
	seed uint64
	srv  *httptest.Server
}

// run has so many clients do so many steps, and ends the process: nothing is left.
func (c *crowd) run(h http.Handler, runs *resume.Runs, clients, steps int, step func(r *rand.Rand)) {
	c.srv = httptest.NewServer(h)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(c.seed, uint64(n+1)))
			for range steps {
				step(r)
			}
		})
	}
	all.Wait()
	runs.Shutdown(5 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.srv.Close() // a request whose client has left may still come to its handler
	runs.Wait(ctx)
	if st := runs.Stats(); runs.Open() != 0 || st.Detached != 0 || st.Readers != 0 {
		c.t.Errorf("seed %d: %d are open, stats %+v", c.seed, runs.Open(), st)
	}
}

// ask sends a request. Its client may leave, whatever there is, or before there is an answer, which is
// nil then. whole says that the client was sent all of it.
func (c *crowd) ask(r *rand.Rand, q request) (res *http.Response, body string, whole bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.IntN(4) == 0 {
		time.AfterFunc(time.Duration(r.IntN(6))*time.Millisecond, cancel)
	}
	res, err := do(ctx, c.srv, q)
	if err != nil {
		return nil, "", false
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err == nil
}

// TestRandomSequences has clients attach, leave, repeat, continue and delete at random and
// at once, while configurations change and one in a while the process drains: upstream
// is asked once for a key, as long as no client deletes its stream, and each client gets
// the stream, to the byte.
func TestRandomSequences(t *testing.T) {
	atRandom(t, 200, 16, func(n int, seed uint64) {
		s := &sequence{crowd: crowd{t: t, seed: seed}, asked: map[string]int{}, deleted: map[string]int{}, ids: map[string]string{}}
		s.run(4, 2+n%6)
	})
}

// sequence is a round of TestRandomSequences.
type sequence struct {
	crowd
	mu      sync.Mutex
	asked   map[string]int    // how many times upstream was, by the key
	deleted map[string]int    // how many times a stream was, likewise
	ids     map[string]string // of the streams that clients know, likewise
	p       *resume.Resume
}

const eventsOfSequence = 12

func (s *sequence) run(clients, steps int) {
	store, secret, runs := log.NewMemory(), resume.NewSecret(), new(resume.Runs)
	reload := func() {
		o := resume.DefaultOptions()
		o.Store, o.Secret, o.Runs = store, secret, runs
		s.mu.Lock()
		s.p = resume.New(o)
		s.mu.Unlock()
	}
	reload()
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		p := s.p
		s.mu.Unlock()
		_ = p.Serve(w, r, s.next)
	})
	s.crowd.run(site, runs, clients, steps, func(r *rand.Rand) {
		if r.IntN(20) == 0 {
			reload()
		}
		s.step(r)
	})
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
		if err := write(w, event(n)); err != nil {
			return err
		}
	}
	return nil
}

// step does one thing as a client.
func (s *sequence) step(r *rand.Rand) {
	k := fmt.Sprintf("key%d", r.IntN(3))
	s.mu.Lock()
	known := s.ids[k]
	s.mu.Unlock()
	at := r.IntN(eventsOfSequence)
	q := request{method: http.MethodPost, path: chatPath, body: asking}
	from := 0
	switch what := r.IntN(8); {
	case what == 0 && known != "":
		q = request{method: http.MethodDelete, path: chatPath + "/" + known}
		s.mu.Lock() // before it is: others may ask as soon as it is
		s.deleted[k]++
		s.mu.Unlock()
	case what <= 3 && known != "":
		from = at
		q.header = []string{"Last-Event-ID", fmt.Sprintf("%s/%d", known, at)}
		if what == 3 {
			q.header = append(q.header, key, k)
		}
	default:
		q.header = []string{key, k}
	}
	res, got, ended := s.ask(r, q)
	if res == nil {
		return
	}
	id := res.Header.Get(resume.StreamHeader)
	switch {
	case q.method == http.MethodDelete, res.StatusCode == http.StatusNotFound,
		res.StatusCode == http.StatusUnprocessableEntity && s.wasDeleted(k): // the key is another stream's now
		return
	case res.StatusCode == http.StatusBadRequest && from > 0: // it has not come so far
		return
	case res.StatusCode != http.StatusOK || id == "":
		s.t.Errorf("seed %d: %s %s", s.seed, res.Status, got)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[k] == "" || from == 0 {
		s.ids[k] = id
	}
	whole, text := numbered(id, from+1, events(eventsOfSequence)[from:]...), got
	if len(got) > len(whole) { // it was deleted, and ends with an error
		got = ""
	}
	got, _, _ = strings.Cut(got, `data: {"error"`)
	if !strings.HasPrefix(whole, got) || ended && len(got) < len(whole) && s.deleted[k] == 0 {
		s.t.Errorf("seed %d: after %d of %s came\n%q\nwant\n%q, whole: %v", s.seed, from, k, text, whole, ended)
	}
}

func (s *sequence) wasDeleted(k string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[k] > 0
}

// TestRandomSplits has runs split, given up, deleted and left at random, and clients read what comes
// before and after at any time, while something waits for the end of all runs: each stream has its own
// events, to the byte, and nothing is left.
func TestRandomSplits(t *testing.T) {
	atRandom(t, 100, 8, func(_ int, seed uint64) {
		(&splits{crowd: crowd{t: t, seed: seed}, want: map[string][]string{}, ended: map[string]bool{}}).run()
	})
}

// splits is a round of TestRandomSplits.
type splits struct {
	crowd
	mu    sync.Mutex
	rests []*resume.Split
	ids   []string            // of all streams
	want  map[string][]string // the events of each
	ended map[string]bool     // whole
	kills bool                // a client deletes a stream
}

func (s *splits) run() {
	r := rand.New(rand.NewPCG(s.seed, 0))
	runs := new(resume.Runs)
	o := resume.DefaultOptions()
	o.Runs, o.MaxDetached = runs, r.IntN(3)
	s.kills = r.IntN(4) == 0
	s.crowd.run(resume.New(o).Handler(http.HandlerFunc(s.serve)), runs, 5, 3, func(r *rand.Rand) {
		if r.IntN(5) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			runs.Wait(ctx) // which looks at all runs
			return
		}
		s.step(r)
	})
}

// serve is upstream, and answers those that ask for the rest after a split.
func (s *splits) serve(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == restPath {
		n, _ := strconv.Atoi(q.URL.RawQuery)
		s.mu.Lock()
		var split *resume.Split
		if n < len(s.rests) {
			split = s.rests[n]
		}
		s.mu.Unlock()
		if split == nil || split.Rest(w, q) != nil {
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	s.mu.Lock()
	r := rand.New(rand.NewPCG(s.seed, 1000+uint64(len(s.ids))))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	var split *resume.Split
	part := 0
	for n := 1; n <= 12; n++ {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		}
		_, err := io.WriteString(w, event(1000*part+n))
		if err != nil || q.Context().Err() != nil {
			return
		}
		switch {
		case split == nil && r.IntN(4) == 0:
			if split = resume.NewSplit(q.Context(), time.Minute); split != nil {
				s.mu.Lock()
				s.rests = append(s.rests, split)
				s.mu.Unlock()
			}
		case split == nil:
		case r.IntN(12) == 0:
			split.Release()
			split = nil
		case r.IntN(2) == 0:
			if split.Do() {
				part++
			}
			split = nil
		}
	}
}

// step does one thing as a client.
func (s *splits) step(r *rand.Rand) {
	s.mu.Lock()
	rests, ids := len(s.rests), len(s.ids)
	q := request{method: http.MethodPost, path: chatPath, body: asking, header: []string{key, strconv.Itoa(r.IntN(2))}}
	switch what := r.IntN(4); {
	case what <= 1 && rests > 0:
		q = request{method: http.MethodPost, path: restPath + "?" + strconv.Itoa(r.IntN(rests)), body: asking}
	case what == 2 && ids > 0:
		q = request{method: http.MethodGet, path: chatPath + "/" + s.ids[r.IntN(ids)]}
		if s.kills {
			q.method = http.MethodDelete
		}
	}
	s.mu.Unlock()
	res, body, whole := s.ask(r, q)
	if res == nil {
		return
	}
	id := res.Header.Get(resume.StreamHeader)
	if res.StatusCode != http.StatusOK || id == "" {
		if res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotFound {
			s.t.Errorf("seed %d: %s %s", s.seed, res.Status, body)
		}
		return
	}
	s.got(id, body, whole)
}

// got checks what a client has of the stream with the id: events of one part, in order, as all others
// have them.
func (s *splits) got(id, text string, whole bool) {
	text, _, failed := strings.Cut(text, `data: {"error"`)
	whole = whole && !failed
	var events []string
	for e := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(e, "id: "+id+"/") {
			events = append(events, e)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, known := s.want[id]
	if !known {
		s.ids = append(s.ids, id)
	}
	for i := range min(len(have), len(events)) {
		if have[i] != events[i] {
			s.t.Errorf("seed %d: event %d of %s is %q, and %q", s.seed, i+1, id, events[i], have[i])
		}
	}
	for i, e := range events {
		n, _ := strconv.Atoi(strings.TrimPrefix(strings.SplitN(e, "\n", 2)[0], "data: "))
		first, _ := strconv.Atoi(strings.TrimPrefix(strings.SplitN(events[0], "\n", 2)[0], "data: "))
		if n != first+i || !strings.HasSuffix(e, "\nid: "+id+"/"+strconv.Itoa(i+1)) {
			s.t.Errorf("seed %d: event %d of %s is %q after %d", s.seed, i+1, id, e, first)
		}
	}
	if whole && len(events) < len(have) || s.ended[id] && len(events) > len(have) {
		s.t.Errorf("seed %d: %s has %d events, and %d", s.seed, id, len(events), len(have))
	}
	if s.ended[id] = s.ended[id] || whole; len(events) > len(have) || !known {
		s.want[id] = events
	}
}
