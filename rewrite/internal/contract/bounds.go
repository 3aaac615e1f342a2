package contract

// Bounds that streams of every kind keep to (contract section 7).
const (
	// MaxOpenTools is how many tools of a stream may be open at once. Beyond it the one
	// that has been open longest is completed: each running keeps its one completed, and
	// no frame is lost.
	MaxOpenTools = 256
	// MaxOpenBytes is how many bytes the events may take that say that they have ended:
	// one delta ends them all.
	MaxOpenBytes = 128 << 10
	// MaxMessage is the length in bytes up to which an error's message is kept.
	MaxMessage = 4 << 10
)
