package resume

import (
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// How says how a client came to a stream.
type How uint8

// How clients reach streams.
const (
	HowBegun     How = iota // upstream was asked for it
	HowReplayed             // its key was used before, or it asked for all of the stream by its id
	HowContinued            // it asked for what follows an event

	hows // how many there are
)

// String returns the word for h in logs and metrics.
func (h How) String() string { return [...]string{"begun", "replayed", "continued"}[h] }

// Stats are the counters of a process.
type Stats struct {
	// Readers is how many clients read a log now.
	Readers int64
	// Detached is how many runs go on without a client now, and Awaiting how many of them have done
	// so since a split, after which a client is expected.
	Detached, Awaiting int64
	// The others count since the process began. TotalAttached is how many clients were given
	// a stream.
	TotalAttached [hows]int64
	// TotalDetached is how many times the last client of a run left and it went on.
	TotalDetached int64
	// TotalCancelled is how many runs were cancelled, by the reason.
	TotalCancelled [log.Reasons]int64
}

// A counter has the Stats of a process. Its lock is never held while another lock is waited for.
type counter struct {
	mu    sync.Mutex
	stats Stats
}

// Stats returns a copy of the counters.
func (c *counter) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// count calls change with the counters. The lock is held meanwhile.
func (c *counter) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}

// detach counts one more run without a client. It returns false if there are most of them already,
// without those that await a client.
func (c *counter) detach(most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats.Detached-c.stats.Awaiting >= int64(most) {
		return false
	}
	c.stats.Detached++
	c.stats.TotalDetached++
	return true
}

// await counts one more run that awaits a client after a split. It returns false if there are most
// of them already. counted says that the run counts as one without a client already.
func (c *counter) await(most int, counted bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats.Awaiting >= int64(most) {
		return false
	}
	c.stats.Awaiting++
	if !counted {
		c.stats.Detached++
		c.stats.TotalDetached++
	}
	return true
}
