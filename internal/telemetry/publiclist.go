package telemetry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// maxPublicList is the most bytes of open streams in a public list, and of requests that wait.
// Hundreds of streams fit.
const maxPublicList = 1 << 20

// PublicList returns the results of List and Waiting as JSON, for a port that asks for no
// credentials. It has no ids but those of chat completions, because a client with the key of Hermes
// can read or continue what other ids name. Its paths have only the words of Hermes' own paths. If
// not all open streams fit into 1 MiB, it leaves out the youngest, and `omitted` is their number.
// If not all requests that wait fit into 1 MiB, it leaves out the last ones in line, and
// `omitted_waiting` is their number.
func (p *Process) PublicList(now time.Time) ([]byte, error) {
	open, ended := p.List(now)
	waiting := p.Waiting(now)
	list := struct {
		Open           []json.RawMessage `json:"open"`
		Ended          []EndedStream     `json:"ended"`
		Waiting        []json.RawMessage `json:"waiting"`
		Omitted        int               `json:"omitted,omitempty"`
		OmittedWaiting int               `json:"omitted_waiting,omitempty"`
	}{Ended: ended}
	for i := range open {
		strip(&open[i].ID, &open[i].Path)
	}
	for i := range waiting {
		strip(new(string), &waiting[i].Path)
	}
	var err error
	if list.Open, list.Omitted, err = fitting(open); err != nil {
		return nil, err
	}
	if list.Waiting, list.OmittedWaiting, err = fitting(waiting); err != nil {
		return nil, err
	}
	for i := range ended {
		strip(&ended[i].ID, &ended[i].Path)
	}
	return json.Marshal(list)
}

// fitting returns the first elements of list as JSON, as many as fit into maxPublicList bytes, and
// the number of those left out.
func fitting[T any](list []T) (fit []json.RawMessage, omitted int, err error) {
	fit = []json.RawMessage{}
	size := 0
	for i := range list {
		b, err := json.Marshal(list[i])
		if err != nil {
			return nil, 0, err
		}
		if size += len(b); size > maxPublicList {
			return fit, len(list) - i, nil
		}
		fit = append(fit, b)
	}
	return fit, 0, nil
}

// publicWords are the fixed segments of the paths of Hermes' streams.
var publicWords = []string{"", "v1", "chat", "completions", "responses", "runs", "events", "api", "sessions", "stream"}

// strip clears *id unless it is the id of a chat completion, and puts `*` in place of each segment
// of *path that may be an id.
func strip(id, path *string) {
	if !strings.HasPrefix(*id, "chatcmpl-") {
		*id = ""
	}
	segments := strings.Split(*path, "/")
	for i, s := range segments {
		if !slices.Contains(publicWords, s) {
			segments[i] = "*"
		}
	}
	*path = strings.Join(segments, "/")
}
