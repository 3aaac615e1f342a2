package resume_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
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

// TestMaxStreamCountsBytes: of events of any size as many are there as the limit says, they take
// little more than their size, and what the store counts is what the heap grows by.
func TestMaxStreamCountsBytes(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const most = 4 << 20
	for _, size := range []int{9, 60, 200, 1000, 5000, 8400, 12000, 16300, 17000, 40000, 100000, 300000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := resume.NewMemory()
			before := heap()
			w := claim(t, s, resume.Entry{ID: "a", MaxStream: most, MaxMemory: 1 << 30, Keep: time.Hour})
			for range 9 {
				w.fill(t, most/3, size)
				used, _ := s.Used()
				if grown := heap() - before; grown > used+used/8+64<<10 || used > most+64<<10 {
					t.Errorf("the heap has grown by %d, counted are %d", grown, used)
				}
			}
			w.End(resume.Whole)
			n, grown := kept(t, s, "a"), heap()-before
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

// picture is an event as large as Hermes sends: a picture of 5 MiB in base64.
var picture = "data: " + strings.Repeat("x", 5<<20/3*4+4) + "\n\n"

// TestAPictureEndsNoReplay: with the defaults a stream with a picture comes again as a whole.
// With the smallest max_stream the events before it may go, but neither the picture nor what
// follows.
func TestAPictureEndsNoReplay(t *testing.T) {
	all := slices.Concat(bursts(300, 400), []string{picture}, bursts(100, 400))
	for _, most := range []int64{resume.DefaultMaxStream, 64 << 10} {
		for _, piece := range []int{32 << 10, 8 << 20} { // as a proxy copies it, and at once
			var pieces []string
			for _, e := range all {
				for ; len(e) > piece; e = e[piece:] {
					pieces = append(pieces, e[:piece])
				}
				pieces = append(pieces, e)
			}
			l := newLab(t, func(o *resume.Options) { o.MaxStream = most }, streams(pieces, always()))
			first := l.send(post(key, "k"))
			id := first.id()
			if got := first.rest(); got != numbered(id, 1, all...) {
				t.Fatalf("the first client gets %d bytes", len(got))
			}
			if most == resume.DefaultMaxStream {
				if got := l.send(post(key, "k")).want(200).rest(); got != numbered(id, 1, all...) {
					t.Errorf("in pieces of %d: again there are %d bytes", piece, len(got))
				}
			}
			if got := l.send(post("Last-Event-ID", fmt.Sprint(id, "/300"))).want(200).rest(); got != numbered(id, 301, all[300:]...) {
				t.Errorf("in pieces of %d: from the picture on there are %d bytes", piece, len(got))
			}
			l.wantAsked(1)
		}
	}
}

// TestLargeEventsAreBounded compares what the heap grows by with what is said: max_stream,
// and the largest event; of an event without an end, max_memory.
func TestLargeEventsAreBounded(t *testing.T) {
	const most, memory = 1 << 20, 16 << 20
	entry := resume.Entry{ID: "a", MaxStream: most, MaxMemory: memory, Keep: time.Hour}
	before := heap()
	w := claim(t, resume.NewMemory(), entry)
	for range 20 {
		if err := w.Append(context.Background(), resume.Part{Data: []byte(picture), Ends: []int{len(picture)}}); err != nil {
			t.Fatal(err)
		}
		w.fill(t, 2*most, 1000)
	}
	if grown, limit := heap()-before, int64(most+len(picture)); grown > limit+limit/10 {
		t.Errorf("with large events the heap has grown by %d, want at most %d", grown, limit)
	}
	runtime.KeepAlive(w)
	before = heap()
	w = claim(t, resume.NewMemory(), entry)
	for range 4 * memory / len(picture) {
		if err := w.Append(context.Background(), resume.Part{Data: []byte(picture[6 : len(picture)-2])}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > memory+memory/10 {
		t.Errorf("with an event without an end the heap has grown by %d, want at most %d", grown, memory)
	}
	runtime.KeepAlive(w)
}
