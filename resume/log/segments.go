package log

import "sort"

// Sizes in bytes of a log in memory.
const (
	// segmentSize is the size of a segment. The oldest events are deleted segment by segment.
	segmentSize = 8 << 10
	// usualEvent is the size of events for which a segment has room for ends. For shorter ones the
	// room grows.
	usualEvent = 256
	// segmentOverhead is the size of a segment without its bytes and its ends.
	segmentOverhead = 128
)

// EventSizes keep the size of the largest event of a log. The zero value is for a log without
// events.
type EventSizes struct {
	begun   int64 // where the event under way begins
	largest int64
}

// Ended records that the event under way ends at the index at in the log.
func (s *EventSizes) Ended(at int64) {
	s.largest = max(s.largest, at-s.begun)
	s.begun = at
}

// Limit returns how many bytes a log that ends at the index end may take, given maxStream. An event
// larger than half of maxStream does not count, or one picture would delete the rest.
func (s *EventSizes) Limit(maxStream, end int64) int64 {
	largest := max(s.largest, end-s.begun)
	if largest <= maxStream/2 {
		return maxStream
	}
	return maxStream + largest + largest/32 // 1/32 is the overhead of storing it
}

// segments are the bytes of a log, and where its events end. The zero value is empty. Bytes that
// were appended do not change and do not move, so that readers can share them.
type segments struct {
	all    []segment // all but the last one are full
	begin  int64     // where the bytes that are there begin
	end    int64     // how many bytes were appended, ever
	events uint64    // how many events have ended, ever
	taken  int64     // the size of all, in bytes
	sizes  EventSizes
}

// segment is a part of a log.
type segment struct {
	b       []byte
	ends    []uint16 // the indexes in b after events
	before  uint64   // how many events end before it
	inEvent bool     // it begins within an event
}

// size returns the size of the segment in bytes.
func (g *segment) size() int64 { return segmentOverhead + segmentSize + 2*int64(cap(g.ends)) }

// next returns an empty segment that follows the last one.
func (s *segments) next() segment { return segment{before: s.events, inEvent: s.sizes.begun < s.end} }

// append appends b. ends says that an event ends after b.
func (s *segments) append(b []byte, ends bool) {
	for len(b) > 0 {
		if s.end == s.begin+int64(len(s.all))*segmentSize { // the last one is full
			g := s.next()
			g.b, g.ends = make([]byte, 0, segmentSize), make([]uint16, 0, segmentSize/usualEvent)
			s.all = append(s.all, g)
			s.taken += g.size()
		}
		g := &s.all[len(s.all)-1]
		n := min(len(b), segmentSize-len(g.b))
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
		g.ends = append(g.ends, uint16(len(g.b)))
		s.taken += g.size()
	}
	s.events++
	s.sizes.Ended(s.end)
}

// trim deletes the oldest segments until the others take no more than most bytes. It keeps the last
// one, and those with bytes from the index unread on.
func (s *segments) trim(most, unread int64) {
	n := 0
	for ; n < len(s.all)-1 && s.taken > most && s.begin+segmentSize <= unread; n++ {
		s.taken -= s.all[n].size()
		s.begin += segmentSize
	}
	clear(s.all[:n])
	s.all = s.all[n:]
}

// trimTo returns the index at which the log begins once enough full segments are deleted to free the
// given number of bytes, or all of them if they are too few.
func (s *segments) trimTo(bytes int64) (to int64) {
	n := min((max(bytes, 0)+segmentSize-1)/segmentSize, (s.end-s.begin)/segmentSize)
	return s.begin + n*segmentSize
}

// clear deletes all segments.
func (s *segments) clear() { s.all, s.taken, s.begin = nil, 0, s.end }

// first returns the number of the first event that is there, or will be.
func (s *segments) first() uint64 {
	g := s.next()
	if len(s.all) > 0 {
		g = s.all[0]
	}
	if g.inEvent { // of the event before+1, only the end is there
		return g.before + 2
	}
	return g.before + 1
}

// after returns where the bytes after the event n begin, and false if they were deleted. The
// event must have been appended.
func (s *segments) after(n uint64) (at int64, ok bool) {
	if n+1 < s.first() {
		return 0, false
	}
	// Event n ends in the last segment before which fewer than n events end.
	i := sort.Search(len(s.all), func(i int) bool { return s.all[i].before >= n }) - 1
	if i < 0 {
		return s.begin, true
	}
	g := &s.all[i]
	return s.begin + int64(i)*segmentSize + int64(g.ends[n-g.before-1]), true
}

// since returns the bytes from the index at to the end of its segment, which must be there.
func (s *segments) since(at int64) []byte {
	i := at - s.begin
	return s.all[i/segmentSize].b[i%segmentSize:]
}
