package resume

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLargePiecesAreNotKept looks at the room that runs share after pieces of all sizes.
func TestLargePiecesAreNotKept(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set(KeyHeader, "k")
	err := New(DefaultOptions()).Serve(httptest.NewRecorder(), r, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 1; n <= 4<<20; n *= 2 {
			for _, piece := range []string{"data: " + strings.Repeat("x", n) + "\n\n", strings.Repeat("a\n\n", n/3)} {
				if _, err := w.Write([]byte(piece)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if room := rooms.Get().(*numbered); cap(room.bytes) > maxRoom || cap(room.ends) > maxRoom {
			t.Errorf("room for %d bytes and %d events is kept", cap(room.bytes), cap(room.ends))
		}
	}
}

// TestPiecesOfALog reads a log from every event, however its pieces were cut.
func TestPiecesOfALog(t *testing.T) {
	for _, size := range []int{1, 100, minSegment, maxSegment - 1, maxSegment, maxSegment + 1, 3 * maxSegment} {
		m := NewMemory()
		l := newMemoryLog(m, Entry{ID: "a", MaxStream: 1 << 30, MaxMemory: 1 << 30}, nil)
		var all strings.Builder
		var ends []int
		for n := range 40 {
			e := strings.Repeat(string(rune('a'+n%26)), size)
			all.WriteString(e)
			ends = append(ends, all.Len())
			if err := l.Append(context.Background(), []byte(e), []int{size}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Begin(nil); err != nil {
			t.Fatal(err)
		}
		l.End(Whole)
		for n := 0; n <= len(ends); n++ {
			r := l.Read(context.Background(), uint64(n))
			if _, _, err := r.Start(); err != nil {
				t.Fatal(err)
			}
			from := 0
			if n > 0 {
				from = ends[n-1]
			}
			var got strings.Builder
			for {
				b, err := r.Next()
				if err != nil {
					break
				}
				got.Write(b)
			}
			if got.String() != all.String()[from:] {
				t.Fatalf("events of %d bytes: behind %d are %d bytes, want %d", size, n, got.Len(), all.Len()-from)
			}
			r.Close()
		}
	}
}
