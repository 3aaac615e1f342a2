package resume

import (
	"strconv"
	"strings"
)

// What clients make of the bytes of a stream: the tests' oracles.

// dispatched is an event that a client hands to its program.
type dispatched struct {
	kind, data, id string
	hasData        bool // there was a data field
}

// readStandard reads a stream as the WHATWG says (HTML, section 9.2.6). It also returns the
// last id field, whose value some clients keep before its event is complete.
func readStandard(in string) (events []dispatched, retry, lastID string) {
	in = strings.TrimPrefix(in, "\ufeff")
	var e dispatched
	for _, line := range splitLines(in) {
		if !strings.HasSuffix(line, "\n") && !strings.HasSuffix(line, "\r") {
			break // it is not complete
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if e.hasData {
				e.data = strings.TrimSuffix(e.data, "\n")
				events = append(events, e)
			}
			e = dispatched{id: e.id}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.kind = value
		case "data":
			e.hasData = true
			e.data += value + "\n"
		case "id":
			e.id, lastID = value, value
		case "retry":
			retry = value
		}
	}
	return events, retry, lastID
}

// readOpenAI reads a stream that comes in pieces as openai-python's SSEDecoder does
// (openai/_streaming.py), and as httpx-sse does but for how it splits lines: every blank
// line ends an event as soon as an id is known.
func readOpenAI(pieces []string) (events []dispatched) {
	var block string
	var e dispatched
	var data []string
	retry := false
	decode := func(line string) {
		if line == "" {
			if e.kind == "" && data == nil && e.id == "" && !retry {
				return
			}
			e.data, e.hasData = strings.Join(data, "\n"), data != nil
			events = append(events, e)
			e, data, retry = dispatched{id: e.id}, nil, false
			return
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.kind = value
		case "data":
			data = append(data, value)
		case "id":
			e.id = value
		case "retry":
			_, err := strconv.Atoi(value)
			retry = retry || err == nil
		}
	}
	take := func() {
		for _, line := range splitLines(block) {
			decode(strings.TrimRight(line, "\r\n"))
		}
		block = ""
	}
	for _, piece := range pieces {
		for _, line := range splitLines(piece) {
			block += line
			if strings.HasSuffix(block, "\r\r") || strings.HasSuffix(block, "\n\n") || strings.HasSuffix(block, "\r\n\r\n") {
				take()
			}
		}
	}
	take()
	return events
}

// splitLines splits s after each line end.
func splitLines(s string) (lines []string) {
	for s != "" {
		n := strings.IndexAny(s, "\r\n") + 1
		switch {
		case n == 0:
			n = len(s)
		case strings.HasPrefix(s[n-1:], "\r\n"):
			n++
		}
		lines, s = append(lines, s[:n]), s[n:]
	}
	return lines
}
