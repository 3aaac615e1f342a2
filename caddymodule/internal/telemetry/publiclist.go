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
		strip(&open[i].ID, &open[i].Path)
		b, err := json.Marshal(open[i])
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
		strip(&ended[i].ID, &ended[i].Path)
	}
	return json.Marshal(list)
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
