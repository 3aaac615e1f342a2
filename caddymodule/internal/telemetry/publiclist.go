package telemetry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// maxPublicList is how many bytes of open streams a public list has, and of requests that wait.
// Hundreds of streams fit.
const maxPublicList = 1 << 20

// PublicList returns as JSON what List and Waiting return, for a port that asks for no credentials.
// Of the ids it has only those of chat completions, because a client with the key of
// Hermes can read or continue what other ids name. Of paths it has only the words that
// Hermes' own consist of. If not all open streams fit into 1 MiB, `omitted` is the number
// of those left out, which are the youngest; `omitted_waiting` is that of the requests that wait, of
// which the last ones in line are left out.
func (p *Process) PublicList(now time.Time) ([]byte, error) {
	open, ended := p.List(now)
	waiting := Waiting(now)
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

// fitting returns the first members of a list, as many as a public list may have, and the number of
// others.
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

// strip removes an id that is no chat completion's, and puts `*` in place of each segment of a
// path that may be an id.
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
