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

// TestRandomSequences has clients attach, leave, repeat, continue and delete at random and at once, while
// configurations change and something waits for the end of all runs, which comes at last. In every second
// sequence runs are split or splits given up, and clients read the rests. Each stream has its own events, to
// the byte. Without splits, upstream is asked once for a key, as long as no client deletes its stream.
func TestRandomSequences(t *testing.T) {
	rounds := 300
	if s := os.Getenv("HERMES_RESUME_SEQUENCES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	const atOnce = 16
	first := uint64(time.Now().UnixNano())
	t.Logf("seed %d", first)
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for n := worker; n < rounds && !t.Failed(); n += atOnce {
				seed := first + uint64(n)
				r := rand.New(rand.NewPCG(seed, 0))
				s := &sequence{
					t: t, seed: seed, splits: r.IntN(2) == 0, deletes: r.IntN(2) == 0,
					asked: map[string]int{}, deleted: map[string]int{}, streams: map[string]*shown{},
				}
				s.run(2+r.IntN(6), r)
			}
		})
	}
	all.Wait()
}

// sequence is a site and its clients, which do things at random and at once.
type sequence struct {
	t               *testing.T
	seed            uint64
	splits, deletes bool
	p               atomic.Pointer[resume.Resume]
	srv             *httptest.Server

	mu      sync.Mutex
	asked   map[string]int    // how many times upstream was, by the key
	deleted map[string]int    // how many times a stream was, likewise
	streams map[string]*shown // by their ids
	ids     []string          // of streams
	rests   []*resume.Split
}

// shown is what clients have seen of a stream.
type shown struct {
	key    string // "" for a rest
	events []string
	ended  bool // these are all
}

const eventsOfSequence = 12

// run has clients do so many steps each, and ends the process: nothing is left.
func (s *sequence) run(steps int, r *rand.Rand) {
	o := resume.DefaultOptions()
	o.Store, o.Runs = log.NewMemory(), new(resume.Runs)
	if s.splits {
		o.MaxDetached = r.IntN(3)
	}
	s.p.Store(resume.New(o))
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = s.p.Load().Serve(w, r, s.next) }))
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(s.seed, uint64(n+1)))
			for range steps {
				switch r.IntN(20) {
				case 0:
					s.p.Store(resume.New(o))
				case 1:
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
					o.Runs.Wait(ctx) // which looks at all runs
					cancel()
				}
				s.step(r)
			}
		})
	}
	all.Wait()
	o.Runs.Shutdown(5 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.srv.Close() // a request whose client has left may still come to its handler
	o.Runs.Wait(ctx)
	if st := o.Runs.Stats(); o.Runs.Open() != 0 || st.Detached != 0 || st.Readers != 0 {
		s.t.Errorf("seed %d: %d are open, stats %+v", s.seed, o.Runs.Open(), st)
	}
	for key, n := range s.asked {
		if n > 1+s.deleted[key] && !s.splits {
			s.t.Errorf("seed %d: upstream was asked %d times for %s, deleted were %d", s.seed, n, key, s.deleted[key])
		}
	}
}

// next is upstream, which takes its time, and answers those that ask for the rest after a split.
func (s *sequence) next(w http.ResponseWriter, q *http.Request) error {
	if q.URL.Path == restPath {
		n, _ := strconv.Atoi(q.URL.RawQuery)
		s.mu.Lock()
		split := s.rests[n]
		s.mu.Unlock()
		return split.Rest(w, q)
	}
	s.mu.Lock()
	s.asked[q.Header.Get(key)]++
	r := rand.New(rand.NewPCG(s.seed, 1000+uint64(len(s.ids))))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	var split *resume.Split
	part := 0
	for n := 1; n <= eventsOfSequence; n++ {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		}
		if err := write(w, event(1000*part+n)); err != nil || q.Context().Err() != nil {
			return context.Cause(q.Context())
		}
		switch {
		case !s.splits:
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
	return nil
}

// step does one thing as a client, which may leave, whatever there is, or before there is an answer.
func (s *sequence) step(r *rand.Rand) {
	q, k, from := s.request(r)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.IntN(4) == 0 {
		time.AfterFunc(time.Duration(r.IntN(6))*time.Millisecond, cancel)
	}
	res, err := do(ctx, s.srv, q)
	if err != nil {
		return
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	id := res.Header.Get(resume.StreamHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case q.method == http.MethodDelete, res.StatusCode == http.StatusNotFound,
		res.StatusCode == http.StatusUnprocessableEntity && s.deleted[k] > 0, // the key is another stream's now
		res.StatusCode == http.StatusBadRequest && from > 0:                  // it has not come so far
	case res.StatusCode != http.StatusOK || id == "":
		s.t.Errorf("seed %d: %s %s %s: %s %s", s.seed, q.method, q.path, q.header, res.Status, b)
	default:
		s.got(id, k, from, string(b), err == nil)
	}
}

// request returns what a client sends, the key of the stream that it is about, "" for a rest, and the number
// of the event after which it continues.
func (s *sequence) request(r *rand.Rand) (q request, k string, from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, id := r.IntN(8), ""
	if len(s.ids) > 0 && what <= 4 {
		id = s.ids[r.IntN(len(s.ids))]
		k = s.streams[id].key
	}
	q = request{method: http.MethodPost, path: chatPath, body: asking}
	switch {
	case what == 5 && len(s.rests) > 0:
		return request{method: http.MethodPost, path: restPath + "?" + strconv.Itoa(r.IntN(len(s.rests))), body: asking}, "", 0
	case id == "":
		k = fmt.Sprintf("key%d", r.IntN(3))
		q.header = []string{key, k}
	case what == 0 && s.deletes:
		q = request{method: http.MethodDelete, path: chatPath + "/" + id}
		s.deleted[k]++ // before it is: others may ask as soon as it is
	case what == 1:
		q = request{method: http.MethodGet, path: chatPath + "/" + id}
	default:
		from = r.IntN(eventsOfSequence)
		q.header = []string{"Last-Event-ID", fmt.Sprintf("%s/%d", id, from)}
		if what == 3 && k != "" {
			q.header = append(q.header, key, k)
		}
	}
	return q, k, from
}

// got checks what a client has of the stream with the id and the key: events of one part, in order, as all
// others have them, from the number from on. isOver says that it was sent all.
func (s *sequence) got(id, k string, from int, text string, isOver bool) {
	known := s.streams[id]
	if known == nil {
		known = &shown{key: k}
		s.ids, s.streams[id] = append(s.ids, id), known
	}
	have, at, first, failed := known.events, from, 0, false
	if len(have) > 0 {
		first = numberOf(have[0])
	}
	for e := range strings.SplitSeq(text, "\n\n") {
		if !strings.Contains(e, "id: "+id+"/") {
			continue
		}
		if failed = numberOf(e) == 0; failed { // an error finish
			break
		}
		if at == 0 {
			first = numberOf(e)
		}
		if at < len(have) && e != have[at] || e != fmt.Sprintf("data: %d\nid: %s/%d", first+at, id, at+1) && first > 0 {
			s.t.Errorf("seed %d: event %d of %s is %q, and the first %d, of %q", s.seed, at+1, id, e, first, have)
		}
		if at++; at > len(known.events) && from <= len(have) {
			known.events = append(known.events, e)
		}
	}
	isEnd := isOver && !failed
	if isEnd && at < len(have) || known.ended && at > len(have) || isOver && at < eventsOfSequence && s.deleted[k] == 0 && !s.splits {
		s.t.Errorf("seed %d: %s has %d events, and %d; failed: %v", s.seed, id, at, len(have), failed)
	}
	known.ended = known.ended || isEnd && at == len(known.events)
}

// numberOf returns the number in the data of an event, 0 for none.
func numberOf(e string) int {
	line, _, _ := strings.Cut(e, "\n")
	n, _ := strconv.Atoi(strings.TrimPrefix(line, "data: "))
	return n
}
