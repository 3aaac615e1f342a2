package resume_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

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
