package resume_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
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

// TestNoMemoryForAStreamThatIsAlone ends it with an error, which a client that comes back gets.
func TestNoMemoryForAStreamThatIsAlone(t *testing.T) {
	each, big := make(chan struct{}), "data: "+strings.Repeat("x", 16<<10)+"\n\n"
	all := slices.Repeat([]string{big}, 20)
	l := newLab(t, func(o *resume.Options) { o.MaxMemory = 256 << 10 }, func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Path == chatPath {
			return silent(w, r)
		}
		return streams(all, each)(w, r)
	})
	r := l.send(chat(key, "a"))
	id := r.id()
	r.next()
	r.leave()
	until(t, "nobody reads", func() bool { return l.runs.Stats().Detached == 1 })
	go func() { each <- struct{}{} }()
	other := l.send(post(key, "b"))
	other.next()
	for range len(all) - 2 {
		each <- struct{}{}
		other.next()
	}
	e := l.over()
	each <- struct{}{}
	other.next()
	if e.Reason != log.ReasonMemory {
		t.Errorf("ended for %v", e.Reason)
	}
	if _, err := l.store.Find(context.Background(), id); !errors.Is(err, log.ErrDropped) {
		t.Error("what has ended is kept, although there is no room")
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
