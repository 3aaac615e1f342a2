package log

import (
	"math/rand/v2"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
)

// TestSegmentsAtRandom appends pieces of all sizes, in which events end or not, and drops
// the oldest: what is there is what has come last, and each event in it is found.
func TestSegmentsAtRandom(t *testing.T) {
	alone.NotUnderRace(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s segments
		var all []byte
		var ends []int64 // of all events that have come
		longest := 1 << r.IntN(17)
		for range 100 {
			p := make([]byte, 1+r.IntN(longest))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			var of []int
			for end := r.IntN(longest) + 1; end <= len(p) && len(of) < 50; end += r.IntN(longest) + 1 {
				of = append(of, end)
				ends = append(ends, int64(len(all)+end))
			}
			all = append(all, p...)
			for b, ends := range (Part{Data: p, Ends: of}).Pieces(segmentSize) {
				s.append(b, ends)
			}
			switch r.IntN(20) {
			case 0:
				s.clear()
			case 1, 2:
				s.trim(int64(r.IntN(64<<10)), s.end)
			}
			checkSegments(t, seed, &s, all, ends)
		}
	}
}

// checkSegments compares the segments with all that has come, and where its events end.
func checkSegments(t *testing.T, seed uint64, s *segments, all []byte, ends []int64) {
	t.Helper()
	if s.end != int64(len(all)) || s.events != uint64(len(ends)) {
		t.Fatalf("seed %d: %d bytes and %d events, want %d and %d", seed, s.end, s.events, len(all), len(ends))
	}
	taken := int64(0)
	for _, g := range s.all {
		taken += g.size()
	}
	if taken != s.taken {
		t.Fatalf("seed %d: it takes %d, counted are %d", seed, taken, s.taken)
	}
	for at := s.begin; at < s.end; {
		b := s.since(at)
		if len(b) == 0 || string(b) != string(all[at:at+int64(len(b))]) {
			t.Fatalf("seed %d: from %d on are other bytes", seed, at)
		}
		at += int64(len(b))
	}
	first := uint64(1) // the first event that begins after where all begins
	for begin := int64(0); begin < s.begin; first++ {
		if first > uint64(len(ends)) {
			first++
			break
		}
		begin = ends[first-1]
	}
	if s.first() != first {
		t.Fatalf("seed %d: the first event is %d, want %d", seed, s.first(), first)
	}
	for n := range uint64(len(ends) + 1) {
		want := int64(0)
		if n > 0 {
			want = ends[n-1]
		}
		if at, ok := s.after(n); ok != (n+1 >= first) || ok && at != want {
			t.Fatalf("seed %d: after the event %d is %d, %v, want %d", seed, n, at, ok, want)
		}
	}
}
