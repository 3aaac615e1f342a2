package sse

import (
	"bytes"
	"slices"
	"sort"
)

// Frame is an event as it came, with its fields by position. The zero Frame is ready
// for Parse. A Frame that is used again allocates nothing unless its data has several
// lines. Raw, Data and Event are valid as long as the bytes that were parsed.
type Frame struct {
	Raw   []byte // all of it, the blank line included
	Data  []byte // the values of the data fields, joined by LF
	Event []byte // the value of the last event field
	// HasData reports whether there is a data field. A client sees no event without one.
	HasData bool
	// OnlyData reports whether there is one data line and nothing else: neither other
	// fields nor comments.
	OnlyData bool

	lines     []dataLine // where the lines of Data are in Raw
	eventLine [2]int     // where the last event line is in Raw, its end included; zero if there is none
	join      []byte     // room for Data of several lines
}

// dataLine maps one line of a frame's data to the frame's bytes.
type dataLine struct {
	data int32 // where the line begins in Data
	raw  int32 // where it begins in Raw
}

// Parse finds the fields of raw, which it keeps. raw may lack its blank line.
func (f *Frame) Parse(raw []byte) {
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

// SetData makes f a frame with the bytes raw and the data raw[from:to], in one line
// and with no other field. It is for callers that know where the data is.
func (f *Frame) SetData(raw []byte, from, to int) {
	f.Raw, f.Data, f.Event = raw, raw[from:to], nil
	f.HasData, f.OnlyData, f.eventLine = true, true, [2]int{}
	f.lines = append(f.lines[:0], dataLine{0, int32(from)})
}

// Forget lets go of the bytes that f has been parsed from.
func (f *Frame) Forget() { f.Raw, f.Data, f.Event = nil, nil, nil }

// Trim gives large room back. f must be parsed again before it is used.
func (f *Frame) Trim() {
	if cap(f.lines) > maxIdleItems {
		f.lines = nil
	}
	if cap(f.join) > maxIdleBuffer {
		f.join = nil
	}
}

// EventLine returns where the last event line is in Raw, its end included. Both are 0
// if there is none.
func (f *Frame) EventLine() (from, to int) { return f.eventLine[0], f.eventLine[1] }

// parseLines is Parse for a frame whose lines the scanner has seen.
func (f *Frame) parseLines(raw []byte, l unitLines) {
	if l.cr || l.n == 0 || l.n > 2 {
		f.Parse(raw)
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

func (f *Frame) begin(raw []byte) {
	f.Raw = raw
	f.Data, f.Event, f.HasData, f.eventLine = nil, nil, false, [2]int{}
	f.lines, f.join = f.lines[:0], f.join[:0]
	f.OnlyData = true
}

func (f *Frame) end() {
	if len(f.lines) > 1 {
		f.Data = f.join
	}
}

// field takes in the line Raw[from:end]. The next line begins at next.
func (f *Frame) field(from, end, next int) {
	line := f.Raw[from:end]
	if len(line) == 0 {
		return
	}
	name, value := cutField(line)
	switch string(name) {
	case "data":
		f.HasData = true
		f.addData(value, end-len(value))
	case "event":
		f.Event = value
		f.eventLine = [2]int{from, next}
		f.OnlyData = false
	default:
		f.OnlyData = false
	}
}

// cutField returns the name and the value of the field in line.
func cutField(line []byte) (name, value []byte) {
	i := len("data")
	if i >= len(line) || line[i] != ':' || string(line[:i]) != "data" { // most lines are data
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

// addData adds a line of data that begins at Raw[at].
func (f *Frame) addData(value []byte, at int) {
	if len(f.lines) == 0 {
		f.Data = value
		f.lines = append(f.lines, dataLine{0, int32(at)})
		return
	}
	switch len(f.lines) {
	case 1:
		f.join = append(f.join, f.Data...)
	case maxIdleItems: // there will be many: room for all of them, once
		rest := f.Raw[at:]
		f.lines = slices.Grow(f.lines, bytes.Count(rest, []byte("\n"))+bytes.Count(rest, []byte("\r"))+1)
		f.join = slices.Grow(f.join, len(rest))
	}
	f.join = append(f.join, '\n')
	f.lines = append(f.lines, dataLine{int32(len(f.join)), int32(at)})
	f.join = append(f.join, value...)
	f.OnlyData = false
}

// At returns the index in Raw of the byte i of Data. There must be a data field.
func (f *Frame) At(i int) int {
	l := f.lines[f.lineOf(i)]
	return int(l.raw) + i - int(l.data)
}

// lineOf returns the index of the data line that the byte i of Data is in.
func (f *Frame) lineOf(i int) int {
	if len(f.lines) == 1 {
		return 0
	}
	return sort.Search(len(f.lines)-1, func(n int) bool { return int(f.lines[n+1].data) > i })
}

// endOf returns the end of the data line n, in Data.
func (f *Frame) endOf(n int) int {
	if n+1 < len(f.lines) {
		return int(f.lines[n+1].data) - 1
	}
	return len(f.Data)
}
