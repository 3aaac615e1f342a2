package desk

import (
	"maps"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Stats are the numbers of a desk since it was made, for metrics. Asked is always the sum of
// Answered, Expired, Ended and Waiting.
type Stats struct {
	// Asked counts tickets that were made, or waited again.
	Asked uint64
	// Answered counts answers that upstream has accepted.
	Answered map[AnswerKind]uint64
	// Expired counts tickets without an answer at their timeout.
	Expired uint64
	// Ended counts tickets that ended otherwise: their tool or their stream ended, or they
	// were answered elsewhere or too late.
	Ended uint64
	// Waiting is how many tickets wait now.
	Waiting uint64
	// Omitted counts requests that got no ticket: a bound was reached, an id was missing or too
	// long, or the ids were those of another command.
	Omitted uint64
}

// AnswerKind is a choice and the way it was made.
type AnswerKind struct {
	Choice rewrite.ApprovalChoice
	Way    Way
}

// Stats returns the current numbers.
func (d *Desk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Answered = maps.Clone(s.Answered)
	return s
}
