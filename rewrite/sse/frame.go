package sse

import (
	"bytes"
	"sort"
)

// Frame is an event as it came, with its fields by position. The zero Frame is ready
// for Parse. A Frame that is used again allocates nothing unless its data has several
// lines. Raw, Data, Event and ID are valid as long as the bytes that were parsed.
type Frame struct {
	Raw      []byte // all of it, the blank line included
	Data     []byte // the values of the data fields, joined by LF
	Event    []byte // the value of the last event field
	ID       []byte // the value of the last id field, nil if there is none
	HasData  bool   // there is a data field; a client sees no event without one
	OnlyData bool   // there is one data line and nothing else: neither other fields nor comments

	lines     []dataLine // where the lines of Data are in Raw
	eventLine [2]int     // where the last event line is in Raw, its end included; zero if there is none
	join      []byte     // room for Data of several lines
}

// dataLine says where a line of a frame's data begins, in Data and in Raw.
type dataLine struct{ data, raw int32 }

// Parse finds the fields of raw, which it keeps. raw may lack its blank line.
func (f *Frame) Parse(raw []byte) {
	f.Raw = raw
	f.Data, f.Event, f.ID, f.HasData, f.OnlyData, f.eventLine = nil, nil, nil, false, true, [2]int{}
	f.lines, f.join = f.lines[:0], f.join[:0]
	for i := 0; i < len(raw); {
		end := lineEnd(raw, i)
		next := min(end+1, len(raw))
		if next < len(raw) && raw[next] == '\n' && raw[end] == '\r' {
			next++
		}
		if i < end {
			f.field(i, end, next)
		}
		i = next
	}
}

// SetData makes f a frame with the bytes raw and the data raw[from:to], in one line
// and with no other field. It is for callers that know where the data is.
func (f *Frame) SetData(raw []byte, from, to int) {
	f.Raw, f.Data, f.Event, f.ID = raw, raw[from:to], nil, nil
	f.HasData, f.OnlyData, f.eventLine = true, true, [2]int{}
	f.lines = append(f.lines[:0], dataLine{0, int32(from)})
}

// EventLine returns where the last event line is in Raw, its end included. Both are 0
// if there is none.
func (f *Frame) EventLine() (from, to int) { return f.eventLine[0], f.eventLine[1] }

// field takes in the line Raw[from:end], which is not empty. The next line begins at next.
func (f *Frame) field(from, end, next int) {
	line := f.Raw[from:end]
	i := bytes.IndexByte(line, ':')
	value := end
	if i < 0 {
		i = len(line)
	} else if value = from + i + 1; value < end && f.Raw[value] == ' ' {
		value++
	}
	switch string(line[:i]) {
	case "data":
		f.HasData = true
		f.addData(f.Raw[value:end], value)
	case "event":
		f.Event, f.eventLine, f.OnlyData = f.Raw[value:end], [2]int{from, next}, false
	case "id":
		f.ID, f.OnlyData = f.Raw[value:end], false
	default:
		f.OnlyData = false
	}
}

// addData adds a line of data that begins at Raw[at].
func (f *Frame) addData(value []byte, at int) {
	if len(f.lines) == 0 {
		f.Data = value
		f.lines = append(f.lines, dataLine{0, int32(at)})
		return
	}
	if len(f.lines) == 1 {
		f.join = append(f.join, f.Data...)
	}
	f.join = append(f.join, '\n')
	f.lines = append(f.lines, dataLine{int32(len(f.join)), int32(at)})
	f.join = append(f.join, value...)
	f.Data, f.OnlyData = f.join, false
}

// At returns the index in Raw of the byte i of Data. There must be a data field.
func (f *Frame) At(i int) int {
	l := f.lines[f.lineOf(i)]
	return int(l.raw) + i - int(l.data)
}

// lineOf returns the index of the data line that the byte i of Data is in.
func (f *Frame) lineOf(i int) int {
	return sort.Search(len(f.lines)-1, func(n int) bool { return int(f.lines[n+1].data) > i })
}

// endOf returns the end of the data line n, in Data.
func (f *Frame) endOf(n int) int {
	if n+1 < len(f.lines) {
		return int(f.lines[n+1].data) - 1
	}
	return len(f.Data)
}
