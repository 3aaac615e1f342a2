package resume

import (
	"slices"
	"sort"
)

// Sizes in bytes of what a log in memory takes.
const (
	// maxSegment is the largest of the segments, each of which is as large as those before
	// it together. The oldest events go segment by segment.
	maxSegment = 16 << 10
	// minSegment is the smallest.
	minSegment = 1 << 10
	// usualEvent is the size of an event for which there is room for ends: for shorter ones
	// it grows.
	usualEvent = 256
	// segmentOverhead is what a segment takes beside its bytes and its ends.
	segmentOverhead = 128
)

// EventSizes know how large the largest event of a log is. The zero value is that of a log
// without events.
type EventSizes struct {
	begun   int64 // where the event under way begins
	largest int64
}

// Ended records that the event under way ends at an index in the log.
func (s *EventSizes) Ended(at int64) {
	s.largest = max(s.largest, at-s.begun)
	s.begun = at
}

// Limit returns how many bytes a log that ends at an index may take if max_stream is the
// given number of bytes. An event that is larger than all others may be does not count: one
// picture would delete the rest.
func (s *EventSizes) Limit(maxStream, end int64) int64 {
	largest := max(s.largest, end-s.begun)
	if largest <= maxStream/2 {
		return maxStream
	}
	return maxStream + largest + largest/32 // and what storing it adds
}

// segments are the bytes of a log, and where its events end. The zero value is empty.
// Bytes that have come do not change and do not move, so that readers can be given parts.
type segments struct {
	all    []segment // the last one grows
	end    int64     // how many bytes have come, ever
	events uint64    // how many events have ended, ever
	taken  int64     // what all takes, in bytes
	sizes  EventSizes
}

// segment is a part of a log.
type segment struct {
	b      []byte
	ends   []uint32 // the indexes in b after events
	from   int64    // where it begins in the log
	before uint64   // how many events end before it
	torn   bool     // what it begins with is not the beginning of an event
}

// size returns what the segment takes.
func (g *segment) size() int64 { return segmentOverhead + int64(cap(g.b)) + 4*int64(cap(g.ends)) }

// end returns where it ends in the log.
func (g *segment) end() int64 { return g.from + int64(len(g.b)) }

// isFull reports whether no byte more has room in it.
func (g *segment) isFull() bool { return len(g.b) == cap(g.b) }

// oldest returns the first segment that is there, or that comes next.
func (s *segments) oldest() segment {
	if len(s.all) > 0 {
		return s.all[0]
	}
	return segment{from: s.end, before: s.events, torn: s.sizes.begun < s.end}
}

// begin returns where the bytes that are there begin.
func (s *segments) begin() int64 { return s.oldest().from }

// append appends b. It fills each segment, because limits count segments and are meant for
// bytes. An event may end after b.
func (s *segments) append(b []byte, ends bool) {
	for len(b) > 0 {
		last := len(s.all) - 1
		if last < 0 || s.all[last].isFull() {
			s.grow(len(b))
			continue
		}
		g := &s.all[last]
		n := min(len(b), cap(g.b)-len(g.b))
		g.b = append(g.b, b[:n]...)
		s.end += int64(n)
		b = b[n:]
	}
	if !ends {
		return
	}
	if last := len(s.all) - 1; last >= 0 {
		g := &s.all[last]
		s.taken -= g.size()
		g.ends = append(g.ends, uint32(len(g.b)))
		s.taken += g.size()
	}
	s.events++
	s.sizes.Ended(s.end)
}

// grow adds a segment for n bytes, or for some of them.
func (s *segments) grow(n int) {
	room := max(int(min(s.end-s.begin(), maxSegment)), min(n, maxSegment), minSegment)
	s.all = append(s.all, segment{
		from: s.end, before: s.events, torn: s.sizes.begun < s.end,
		b: make([]byte, 0, room), ends: make([]uint32, 0, room/usualEvent),
	})
	s.taken += s.all[len(s.all)-1].size()
}

// trim deletes the oldest segments until the others take at most so many bytes. It keeps the
// last one, and those with bytes from the index unread on.
func (s *segments) trim(most, unread int64) {
	n := 0
	for ; n < len(s.all)-1 && s.taken > most && s.all[n].end() <= unread; n++ {
		s.taken -= s.all[n].size()
	}
	s.all = slices.Delete(s.all, 0, n)
}

// trimmed returns up to where bytes are deleted to free so many of them for what comes next.
func (s *segments) trimmed(bytes int64) (to int64) {
	for i := range s.all {
		g := &s.all[i]
		if bytes <= 0 || i == len(s.all)-1 && !g.isFull() {
			return g.from
		}
		bytes -= g.size()
	}
	return s.end
}

// clear deletes all.
func (s *segments) clear() { s.all, s.taken = nil, 0 }

// first returns the number of the first event that is there, or will be.
func (s *segments) first() uint64 {
	g := s.oldest()
	if g.torn {
		return g.before + 2
	}
	return g.before + 1
}

// after returns where the bytes after the event n begin, and false if they were deleted. The
// event must have come.
func (s *segments) after(n uint64) (at int64, ok bool) {
	if n+1 < s.first() {
		return 0, false
	}
	// The last segment that begins after fewer events, which it ends in.
	i := sort.Search(len(s.all), func(i int) bool { return s.all[i].before >= n }) - 1
	if i < 0 {
		return s.begin(), true
	}
	g := &s.all[i]
	return g.from + int64(g.ends[n-g.before-1]), true
}

// since returns the bytes from at on that are in one segment, which must be there.
func (s *segments) since(at int64) []byte {
	g := &s.all[sort.Search(len(s.all), func(i int) bool { return s.all[i].end() > at })]
	return g.b[at-g.from:]
}
