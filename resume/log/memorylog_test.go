package log_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// kept returns how many bytes of a log that has ended a client that comes back gets.
func kept(t *testing.T, s log.Store, id string) int {
	t.Helper()
	r := s.Read(context.Background(), id, 0)
	var gone *log.GoneError
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

// TestMaxStreamCountsBytes: of events of any size as many are there as the limit says, they take
// little more than their size, and what the store counts is what the heap grows by.
func TestMaxStreamCountsBytes(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	const most = 4 << 20
	for _, size := range []int{9, 60, 200, 1000, 5000, 8400, 12000, 16300, 17000, 40000, 100000, 300000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := log.NewMemory()
			before := alone.Heap()
			w := claim(t, s, log.Entry{ID: "a", MaxStream: most, MaxMemory: 1 << 30, Keep: time.Hour})
			for range 9 {
				w.fill(t, most/3, size)
				used, _ := s.Used()
				if grown := alone.Heap() - before; grown > used+used/8+64<<10 || used > most+64<<10 {
					t.Errorf("the heap has grown by %d, counted are %d", grown, used)
				}
			}
			w.End(log.Whole)
			n, grown := kept(t, s, "a"), alone.Heap()-before
			if size > 60 && n < most-most/20-size {
				t.Errorf("%d bytes are there, of %d that may be", n, most)
			}
			if size > 60 && grown > int64(n+n/20+size+128<<10) {
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
	alone.NotUnderRace(t)
	for _, size := range []int{100, 1000, 8000} {
		for name := range headers(0) {
			s := log.NewMemory()
			before := alone.Heap()
			for i := range 100 {
				_, w, err := s.Claim(context.Background(), log.Entry{ID: fmt.Sprint(i), MaxStream: 1 << 20, MaxMemory: 1 << 30, Keep: time.Hour}, log.Run{})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Append(context.Background(), log.Part{Header: headers(size)[name]}); err != nil {
					t.Fatal(err)
				}
				w.End(log.Whole)
			}
			grown := alone.Heap() - before
			used, _ := s.Used()
			if grown > used+64<<10 {
				t.Errorf("%s of %d bytes: the heap has grown by %d, counted are %d", name, size, grown, used)
			}
			runtime.KeepAlive(s)
		}
	}
}

// picture is an event as large as Hermes sends: a picture of 5 MiB in base64.
var picture = "data: " + strings.Repeat("x", 5<<20/3*4+4) + "\n\n"

// TestLargeEventsAreBounded compares what the heap grows by with what is said: max_stream,
// and the largest event; of an event without an end, max_memory. A client that comes back gets as much.
func TestLargeEventsAreBounded(t *testing.T) {
	const most, memory = 1 << 20, 16 << 20
	entry := log.Entry{ID: "a", MaxStream: most, MaxMemory: memory, Keep: time.Hour}
	before := alone.Heap()
	s := log.NewMemory()
	w := claim(t, s, entry)
	for range 20 {
		w.fill(t, 2*most, 1000)
		if err := w.Append(context.Background(), log.Part{Data: []byte(picture), Ends: []int{len(picture)}}); err != nil {
			t.Fatal(err)
		}
		w.fill(t, most/2, 1000)
	}
	limit := int64(most + len(picture))
	if grown := alone.Heap() - before; grown > limit+limit/10 {
		t.Errorf("with large events the heap has grown by %d, want at most %d", grown, limit)
	}
	w.End(log.Whole)
	if n := int64(kept(t, s, "a")); n < limit-64<<10 {
		t.Errorf("with large events %d bytes are there, want at least %d", n, limit)
	}
	runtime.KeepAlive(w)
	before = alone.Heap()
	w = claim(t, log.NewMemory(), entry)
	for range 4 * memory / len(picture) {
		if err := w.Append(context.Background(), log.Part{Data: []byte(picture[6 : len(picture)-2])}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := alone.Heap() - before; grown > memory+memory/10 {
		t.Errorf("with an event without an end the heap has grown by %d, want at most %d", grown, memory)
	}
	runtime.KeepAlive(w)
}
