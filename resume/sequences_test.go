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
)

// TestRandomSequences has clients attach, leave, repeat, continue and delete at random and
// at once, while configurations change and one in a while the process drains: upstream
// is asked once for a key, as long as nobody deletes its stream, and what anybody gets is
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
	store, secret, runs := resume.NewMemory(), resume.NewSecret(), new(resume.Runs)
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
		s.t.Errorf("seed %d: behind %d of %s came\n%q\nwant\n%q (%v)", s.seed, from, k, b, whole, err)
	}
}

func (s *sequence) wasDeleted(k string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[k] > 0
}
