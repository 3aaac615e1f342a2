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
	tail  segment   // the last one, which grows; without room in the zero value
	full  []segment // those in front of it
	taken int64     // what all takes, in bytes
	sizes EventSizes
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
func (g *segment) size() int64 {
	if cap(g.b) == 0 {
		return 0
	}
	return segmentOverhead + int64(cap(g.b)) + 4*int64(cap(g.ends))
}

// end returns where it ends in the log.
func (g *segment) end() int64 { return g.from + int64(len(g.b)) }

// events returns how many events end before its end.
func (g *segment) events() uint64 { return g.before + uint64(len(g.ends)) }

// tears reports whether its last byte does not end an event.
func (g *segment) tears() bool {
	if len(g.b) == 0 {
		return g.torn
	}
	return len(g.ends) == 0 || int(g.ends[len(g.ends)-1]) < len(g.b)
}

// end returns how many bytes have come, ever.
func (s *segments) end() int64 { return s.tail.end() }

// events returns how many events have ended, ever.
func (s *segments) events() uint64 { return s.tail.events() }

// oldest returns the first segment that is there, which is empty if nothing is.
func (s *segments) oldest() *segment {
	if len(s.full) > 0 {
		return &s.full[0]
	}
	return &s.tail
}

// begin returns where the bytes that are there begin.
func (s *segments) begin() int64 { return s.oldest().from }

// append appends p from an index on. Each of ends is the index in p after an event. It fills
// each segment, because limits count segments and are meant for bytes.
func (s *segments) append(p []byte, from int, ends []int) {
	for _, end := range ends {
		s.appendPart(p[from:end])
		g := &s.tail
		before := g.size()
		g.ends = append(g.ends, uint32(len(g.b)))
		s.taken += g.size() - before
		s.sizes.Ended(g.end())
		from = end
	}
	s.appendPart(p[from:])
}

// appendPart appends b, and no end of an event.
func (s *segments) appendPart(b []byte) {
	g := &s.tail
	for len(b) > 0 {
		if len(g.b) == cap(g.b) {
			s.grow(len(b))
		}
		n := min(len(b), cap(g.b)-len(g.b))
		g.b = append(g.b, b[:n]...)
		b = b[n:]
	}
}

// grow adds a segment for n bytes, or for some of them.
func (s *segments) grow(n int) {
	g := &s.tail
	if len(g.b) > 0 {
		s.full = append(s.full, *g)
	}
	room := max(int(min(g.end()-s.begin(), maxSegment)), min(n, maxSegment), minSegment)
	*g = segment{
		from: g.end(), before: g.events(), torn: g.tears(),
		b: make([]byte, 0, room), ends: make([]uint32, 0, room/usualEvent),
	}
	s.taken += g.size()
}

// trim deletes the oldest segments until the others take at most so many bytes. It keeps the
// last one, and those with bytes from the index unread on.
func (s *segments) trim(most, unread int64) {
	n := 0
	for ; n < len(s.full) && s.taken > most && s.full[n].end() <= unread; n++ {
		s.taken -= s.full[n].size()
	}
	s.full = slices.Delete(s.full, 0, n)
}

// trimmed returns up to where bytes are deleted to free so many of them for what comes next.
func (s *segments) trimmed(bytes int64) (to int64) {
	for i := range s.full {
		if bytes <= 0 {
			return s.full[i].from
		}
		bytes -= s.full[i].size()
	}
	if g := &s.tail; bytes > 0 && len(g.b) == cap(g.b) {
		return g.end()
	}
	return s.tail.from
}

// room returns how many bytes come into the last segment or, if that is full, into the next.
func (s *segments) room() int {
	if room := cap(s.tail.b) - len(s.tail.b); room > 0 {
		return room
	}
	return maxSegment
}

// clear deletes all.
func (s *segments) clear() {
	g := &s.tail
	*s = segments{tail: segment{from: g.end(), before: g.events(), torn: g.tears()}, sizes: s.sizes}
}

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
	// The first segment in front of whose end it ends.
	i := sort.Search(len(s.full), func(i int) bool { return s.full[i].events() >= n })
	g := &s.tail
	if i < len(s.full) {
		g = &s.full[i]
	}
	if n <= g.before { // in front of all that is there
		return g.from, true
	}
	return g.from + int64(g.ends[n-g.before-1]), true
}

// since returns the bytes from at on that are in one segment, which must be there.
func (s *segments) since(at int64) []byte {
	g := &s.tail // as for almost all readers
	if at < g.from {
		g = &s.full[sort.Search(len(s.full), func(i int) bool { return s.full[i].end() > at })]
	}
	return g.b[at-g.from:]
}
