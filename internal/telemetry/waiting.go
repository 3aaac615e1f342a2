package telemetry

import "time"

// WaitingRequest is a request in a line of hermes_queue as the admin API shows it.
type WaitingRequest struct {
	Path  string    `json:"path"`
	Since time.Time `json:"since"`
	// Waited is in seconds: without the times when upstream had the request and refused it.
	Waited float64 `json:"waited_seconds"`
	// Place is the one in its line: 1 is the next.
	Place int `json:"place"`
}

// Waiting returns the requests that wait, line by line in the order of their turns.
func (p *Process) Waiting(now time.Time) []WaitingRequest {
	list := []WaitingRequest{}
	for _, w := range p.lines.List(now) {
		list = append(list, WaitingRequest{Path: w.Label, Since: w.Since.UTC(), Waited: w.Waited.Seconds(), Place: w.Before + 1})
	}
	return list
}
