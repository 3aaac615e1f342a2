// Package telemetry shows what becomes of streams: metrics, spans, the log of their
// ends, placeholders and fields of the access log, events, and the lists of the admin
// API. It changes no stream.
//
// A Process is what is counted and listed for all configurations of the process; its
// metrics and its lists each have a lock of their own. An Observer is a handler's: it
// has its logger and its events. A stream that is open has its state to itself, under
// its own lock, because the lists and a scrape read it. What is told of each chunk
// allocates nothing.
package telemetry

import "sync"

// Process is what is counted and listed of the streams of all configurations: metrics,
// the open streams, and the last ones that have ended.
type Process struct {
	metrics *metrics
	live    *liveStreams
}

// NewProcess returns a Process that has seen nothing.
func NewProcess() *Process {
	live := &liveStreams{open: make(map[*stream]struct{}), ended: newRing[EndedStream](endedStreams)}
	return &Process{newMetrics(live), live}
}

var ofProcess = sync.OnceValue(NewProcess)

// OfProcess returns the one of this process. It outlives all handlers, so that counters
// go on where they were when hermes leaves the configuration and comes back, as
// Prometheus expects of a process that goes on.
func OfProcess() *Process { return ofProcess() }
