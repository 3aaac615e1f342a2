package replay

import (
	"context"
	"errors"
	"strconv"
	"sync"
)

// The request headers with which the page steers a replay. Hermes knows
// neither of them.
const (
	// RunHeader names the run that a replay belongs to: whoever knows the
	// name can kill it.
	RunHeader = "X-Demo-Run"
	// SpeedHeader is a number from above 0 to 1: this replay alone is slower.
	SpeedHeader = "X-Demo-Speed"
)

// errKilled is the cause of a context that Kill has ended.
var errKilled = errors.New("the run was killed")

// A run is a replay under way.
type run struct {
	name   string
	cancel context.CancelCauseFunc
}

// runs are the replays under way. The zero value has none.
type runs struct {
	mu   sync.Mutex
	open map[*run]struct{}
}

// begin adds a replay, which ends with ctx, when the run of that name is
// killed, and at the latest with a call of end. A run without a name cannot
// be killed.
func (r *runs) begin(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	this := &run{name, cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[*run]struct{}{}
	}
	r.open[this] = struct{}{}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, this)
		cancel(nil)
	}
}

// Kill cuts the connections of all replays of a run, as the death of the
// process would: no finish, no [DONE], no end of the body. It returns how many
// there were; 0 for an unknown run.
func (b *Backend) Kill(name string) int {
	if name == "" {
		return 0
	}
	b.runs.mu.Lock()
	defer b.runs.mu.Unlock()
	n := 0
	for this := range b.runs.open {
		if this.name == name {
			this.cancel(errKilled)
			n++
		}
	}
	return n
}

// slower reads a SpeedHeader; anything but a number above 0 and up to 1 is 1.
func slower(header string) float64 {
	if f, err := strconv.ParseFloat(header, 64); err == nil && f > 0 && f <= 1 {
		return f
	}
	return 1
}
