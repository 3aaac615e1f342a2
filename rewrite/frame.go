package rewrite

import (
	"bytes"
	"slices"
	"sort"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// frame is one event of the stream as upstream sent it, with its fields by
// position.
type frame struct {
	raw   []byte // all of it, the blank line included
	data  []byte // the data fields' values, joined by LF
	event []byte // the last event field's value
	has   bool   // there is a data field: without one, clients see no event
	plain bool   // one data line and nothing else: nothing is lost by dropping it

	lines []dataLine    // where the lines of data are in raw
	named jsonspan.Span // the event line in raw, its end included
	join  []byte        // room for data of several lines
}

// dataLine maps one line of a frame's data to the frame's bytes.
type dataLine struct {
	data int32 // where the line begins in data
	raw  int32 // where it begins in raw
}

// parse finds the fields of raw. It keeps raw, and allocates nothing unless the
// data has several lines.
func (f *frame) parse(raw []byte) {
	f.begin(raw)
	ends := noEnds
	for i := 0; i < len(raw); {
		end := ends.from(raw, i)
		next := min(end+1, len(raw))
		if end < len(raw) && raw[end] == '\r' && next < len(raw) && raw[next] == '\n' {
			next++
		}
		f.field(i, end, next)
		i = next
	}
	f.end()
}

// parseCut is parse for a frame whose lines the scanner has seen.
func (f *frame) parseCut(raw []byte, l unitLines) {
	if l.cr || l.n == 0 || l.n > 2 {
		f.parse(raw)
		return
	}
	f.begin(raw)
	from, end := 0, len(raw)-len("\n\n")
	if l.n == 2 {
		from = int(l.first) + len("\n")
		f.field(0, int(l.first), from)
	}
	f.field(from, end, end+len("\n"))
	f.end()
}

func (f *frame) begin(raw []byte) {
	f.raw = raw
	f.data, f.event, f.has, f.named = nil, nil, false, jsonspan.Span{}
	f.lines, f.join = f.lines[:0], f.join[:0]
	f.plain = true
}

func (f *frame) end() {
	if len(f.lines) > 1 {
		f.data = f.join
	}
}

// field takes the line raw[from:end] in. The next line begins at next.
func (f *frame) field(from, end, next int) {
	line := f.raw[from:end]
	if len(line) == 0 {
		return
	}
	name, value := cutField(line)
	switch string(name) {
	case "data":
		f.has = true
		f.addData(value, end-len(value))
	case "event":
		f.event = value
		f.named = jsonspan.Span{From: from, To: next}
		f.plain = false
	default:
		f.plain = false
	}
}

// cutField returns the name and the value of the field in line.
func cutField(line []byte) (name, value []byte) {
	i := len("data")
	if i >= len(line) || line[i] != ':' || string(line[:i]) != "data" { // as most do
		if i = bytes.IndexByte(line, ':'); i < 0 {
			return line, nil
		}
	}
	name, value = line[:i], line[i+1:]
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

// addData adds a line of data, which is at in raw.
func (f *frame) addData(value []byte, at int) {
	if len(f.lines) == 0 {
		f.data = value
		f.lines = append(f.lines, dataLine{0, int32(at)})
		return
	}
	switch len(f.lines) {
	case 1:
		f.join = append(f.join, f.data...)
	case maxIdleItems: // there will be many: room for all of them, once
		rest := f.raw[at:]
		f.lines = slices.Grow(f.lines, bytes.Count(rest, []byte("\n"))+bytes.Count(rest, []byte("\r"))+1)
		f.join = slices.Grow(f.join, len(rest))
	}
	f.join = append(f.join, '\n')
	f.lines = append(f.lines, dataLine{int32(len(f.join)), int32(at)})
	f.join = append(f.join, value...)
	f.plain = false
}

// at returns where the byte i of data is in raw.
func (f *frame) at(i int) int {
	l := f.lines[f.lineOf(i)]
	return int(l.raw) + i - int(l.data)
}

// lineOf returns the line of data that the byte i of data is in.
func (f *frame) lineOf(i int) int {
	if len(f.lines) == 1 {
		return 0
	}
	return sort.Search(len(f.lines)-1, func(n int) bool { return int(f.lines[n+1].data) > i })
}

// endOf returns the end of the line n of data, in data.
func (f *frame) endOf(n int) int {
	if n+1 < len(f.lines) {
		return int(f.lines[n+1].data) - 1
	}
	return len(f.data)
}
