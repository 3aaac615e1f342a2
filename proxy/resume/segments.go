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
	// segmentOverhead is what a segment takes beside its bytes and its ends.
	segmentOverhead = 128
)

// segments are the bytes of a log, and where its events end. The zero value is empty.
// Bytes that have come do not change and do not move, so that readers can be given parts.
type segments struct {
	tail   *segment // the last of all, nil for none
	all    []*segment
	end    int64  // how many bytes have come, ever
	events uint64 // how many events have ended, ever
	torn   bool   // the last byte did not end an event
	taken  int64  // what all takes, in bytes
}

// segment is a part of a log.
type segment struct {
	from   int64  // where it begins in the log
	before uint64 // how many events end in front of it
	torn   bool   // what it begins with is not the beginning of an event
	b      []byte
	ends   []uint32 // the indexes in b behind events
}

// size returns what the segment takes.
func (g *segment) size() int64 {
	return segmentOverhead + int64(cap(g.b)) + 4*int64(cap(g.ends))
}

// begin returns where the bytes that are there begin.
func (s *segments) begin() int64 {
	if len(s.all) == 0 {
		return s.end
	}
	return s.all[0].from
}

// append appends p, with the indexes behind the events in it. An event that fits into a
// segment is in one.
func (s *segments) append(p []byte, ends []int) {
	if g := s.tail; g != nil && cap(g.b)-len(g.b) >= len(p) { // as almost always
		s.put(g, p, ends...)
		return
	}
	from := 0
	for _, end := range ends {
		s.appendEvent(p[from:end])
		from = end
	}
	s.appendPart(p[from:])
}

// appendEvent appends b, which ends an event.
func (s *segments) appendEvent(b []byte) {
	g := s.tail
	if g == nil || cap(g.b)-len(g.b) < len(b) && len(b) <= maxSegment {
		g = s.grow(len(b))
	}
	n := len(b) - 1
	s.appendPart(b[:n])
	g = s.tail
	if len(g.b) == cap(g.b) {
		g = s.grow(1)
	}
	s.put(g, b[n:], 1)
}

// appendPart appends b, in which no event ends.
func (s *segments) appendPart(b []byte) {
	for len(b) > 0 {
		g := s.tail
		if g == nil || len(g.b) == cap(g.b) {
			g = s.grow(len(b))
		}
		n := min(len(b), cap(g.b)-len(g.b))
		s.put(g, b[:n])
		b = b[n:]
	}
}

// put puts b, which is not empty, into the last segment, which has room for it.
func (s *segments) put(g *segment, b []byte, ends ...int) {
	before, at := g.size(), len(g.b)
	g.b = append(g.b, b...)
	for _, end := range ends {
		g.ends = append(g.ends, uint32(at+end)) // at most maxSegment
	}
	s.end += int64(len(b))
	s.events += uint64(len(ends))
	s.torn = len(ends) == 0 || ends[len(ends)-1] < len(b)
	s.taken += g.size() - before
}

// grow adds a segment for n bytes, or for some of them.
func (s *segments) grow(n int) *segment {
	have := int(min(s.end-s.begin(), maxSegment))
	g := &segment{
		from: s.end, before: s.events, torn: s.torn,
		b: make([]byte, 0, max(have, min(n, maxSegment), minSegment)),
	}
	s.all, s.tail = append(s.all, g), g
	s.taken += g.size()
	return g
}

// keep drops the oldest segments, but for the last one, until those that stay take at
// most so many bytes.
func (s *segments) keep(most int64) {
	n := 0
	for ; n < len(s.all)-1 && s.taken > most; n++ {
		s.taken -= s.all[n].size()
	}
	s.all = slices.Delete(s.all, 0, n)
}

// clear drops all.
func (s *segments) clear() { s.all, s.tail, s.taken = nil, nil, 0 }

// first returns the number of the first event that is there, or will be.
func (s *segments) first() uint64 {
	switch {
	case len(s.all) == 0 && !s.torn:
		return s.events + 1
	case len(s.all) == 0:
		return s.events + 2
	case s.all[0].torn:
		return s.all[0].before + 2
	}
	return s.all[0].before + 1
}

// behind returns where the bytes behind the event n begin. It returns false if they have
// gone. The event must have come.
func (s *segments) behind(n uint64) (at int64, ok bool) {
	if n+1 < s.first() {
		return 0, false
	}
	// The first segment in front of which the event ends is behind the one in which it
	// does.
	i := sort.Search(len(s.all), func(i int) bool { return s.all[i].before >= n })
	if i > 0 {
		if g := s.all[i-1]; g.before+uint64(len(g.ends)) >= n {
			return g.from + int64(g.ends[n-g.before-1]), true
		}
	}
	return s.begin(), true
}

// from returns the bytes from at on that are in one segment, which must be there.
func (s *segments) from(at int64) []byte {
	i := len(s.all) - 1 // as for almost all readers
	if s.all[i].from > at {
		i = sort.Search(len(s.all), func(i int) bool { return s.all[i].from > at }) - 1
	}
	return s.all[i].b[at-s.all[i].from:]
}
