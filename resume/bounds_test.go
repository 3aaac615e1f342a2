package resume_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// kept returns how many bytes of a log that has ended a client that comes back gets.
func kept(t *testing.T, s resume.Store, id string) int {
	t.Helper()
	r := s.Read(context.Background(), id, 0)
	var gone *resume.GoneError
	if _, err := r.Next(); errors.As(err, &gone) {
		r.Close()
		r = s.Read(context.Background(), id, gone.First-1)
		if _, err = r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	defer r.Close()
	n := 0
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(p.Data)
	}
}

// TestMaxStreamCountsBytes: of events of any size as many are there as the limit says, and
// they take little more than their size.
func TestMaxStreamCountsBytes(t *testing.T) {
	const most = 4 << 20
	for _, size := range []int{200, 1000, 5000, 8400, 12000, 16300, 17000, 40000, 100000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := resume.NewMemory()
			before := heap()
			w := claim(t, s, resume.Entry{ID: "a", MaxStream: most, MaxMemory: 1 << 30, Keep: time.Hour})
			w.fill(t, 3*most, size)
			w.End(resume.Whole)
			n, grown := kept(t, s, "a"), heap()-before
			if n < most-most/20-size {
				t.Errorf("%d bytes are there, of %d that may be", n, most)
			}
			if grown > int64(n+n/20+size+128<<10) {
				t.Errorf("%d bytes take %d of the heap", n, grown)
			}
			runtime.KeepAlive(w)
		})
	}
}

// headers returns headers of about so many bytes of names and values.
func headers(bytes int) map[string]http.Header {
	many, values, long := http.Header{}, http.Header{}, http.Header{}
	for i := 0; i < bytes; i += 8 {
		many[fmt.Sprintf("X%06x", i)] = []string{string(rune('a' + i/8%26))}
		values.Add("X", fmt.Sprintf("%07x", i))
	}
	long.Set("X", strings.Repeat("x", bytes))
	return map[string]http.Header{"many fields": many, "many values": values, "one value": long, "none": {}}
}

// TestHeadersTakeWhatIsCounted compares what the store counts of headers with what the heap
// grows by.
func TestHeadersTakeWhatIsCounted(t *testing.T) {
	for _, size := range []int{100, 1000, 8000} {
		for name := range headers(0) {
			s := resume.NewMemory()
			before := heap()
			for i := range 100 {
				_, w, err := s.Claim(context.Background(), resume.Entry{ID: fmt.Sprint(i), MaxStream: 1 << 20, MaxMemory: 1 << 30, Keep: time.Hour}, resume.Run{})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Append(context.Background(), resume.Part{Header: headers(size)[name]}); err != nil {
					t.Fatal(err)
				}
				w.End(resume.Whole)
			}
			grown := heap() - before
			used, _ := s.Used()
			if grown > used+64<<10 {
				t.Errorf("%s of %d bytes: the heap has grown by %d, counted are %d", name, size, grown, used)
			}
			runtime.KeepAlive(s)
		}
	}
}

// sink is a writer that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header       { return s.h }
func (sink) WriteHeader(int)             {}
func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) FlushError() error           { return nil }

// TestMaxMemoryBoundsHeaders has clients read streams at once that have headers of any size:
// beyond max_memory, and what they take without a log, they take 36 KiB each. An answer with
// a larger header passes.
func TestMaxMemoryBoundsHeaders(t *testing.T) {
	const clients, most = 10, 1 << 20
	for _, size := range []int{256, 8 << 10, 100 << 10} {
		for name := range headers(0) {
			open := func(asks bool) (grown int64, logs int) {
				s := resume.NewMemory()
				o := resume.DefaultOptions()
				o.Store, o.MaxMemory = s, most
				p := resume.New(o)
				rest := make(chan struct{})
				var begun, over sync.WaitGroup
				begun.Add(clients)
				before := heap()
				for i := range clients {
					over.Go(func() {
						r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
						if asks {
							r.Header.Set(key, fmt.Sprint(i))
						}
						_ = p.Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, r *http.Request) error {
							maps.Copy(w.Header(), headers(size)[name])
							w.Header().Set("Content-Type", "text/event-stream")
							_, _ = io.WriteString(w, event(1))
							begun.Done()
							<-rest
							runtime.KeepAlive(w)
							return nil
						})
					})
				}
				begun.Wait()
				grown = heap() - before
				_, logs = s.Used()
				close(rest)
				over.Wait()
				return grown, logs
			}
			without, _ := open(false)
			with, logs := open(true)
			if with > 2*without+most+clients*(36<<10) { // the next handler has a map of its own
				t.Errorf("%s of %d bytes: %d bytes are taken, %d without a log", name, size, with, without)
			}
			if large := size > 16<<10 || size > 1<<10 && name != "one value"; (logs == 0) != (large && name != "none") {
				t.Errorf("%s of %d bytes: %d logs", name, size, logs)
			}
		}
	}
}
