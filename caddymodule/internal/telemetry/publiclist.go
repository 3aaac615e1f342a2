package telemetry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// maxPublicList is how many bytes of open streams a public list has. Hundreds of streams fit.
const maxPublicList = 1 << 20

// PublicList returns as JSON what List returns, for a port that asks for no credentials.
// Of the ids it has only those of chat completions, because a client with the key of
// Hermes can read or continue what other ids name. Of paths it has only the words that
// Hermes' own consist of. If not all open streams fit into 1 MiB, `omitted` is the number
// of those left out, which are the youngest.
func (p *Process) PublicList(now time.Time) ([]byte, error) {
	open, ended := p.List(now)
	list := struct {
		Open    []json.RawMessage `json:"open"`
		Ended   []EndedStream     `json:"ended"`
		Omitted int               `json:"omitted,omitempty"`
	}{[]json.RawMessage{}, ended, 0}
	size := 0
	for i := range open {
		o := &open[i]
		o.ID, o.Path = publicID(o.ID), publicPath(o.Path)
		b, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxPublicList {
			list.Omitted = len(open) - i
			break
		}
		list.Open = append(list.Open, b)
	}
	for i := range ended {
		e := &ended[i]
		e.ID, e.Path = publicID(e.ID), publicPath(e.Path)
	}
	return json.Marshal(list)
}

// publicID returns the id if it is a chat completion's, or "".
func publicID(id string) string {
	if !strings.HasPrefix(id, "chatcmpl-") {
		return ""
	}
	return id
}

// publicWords are the fixed segments of the paths of Hermes' streams.
var publicWords = []string{"", "v1", "chat", "completions", "responses", "runs", "events", "api", "sessions", "stream"}

// publicPath returns the path with `*` in place of each segment that may be an id.
func publicPath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if !slices.Contains(publicWords, s) {
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}
