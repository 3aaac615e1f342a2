package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Meta describes a recording. It is in a file of its own, so that a recording has only the bytes
// that upstream sent. It repeats nothing of the request but its path and the form of tool events.
type Meta struct {
	Path        string    `json:"path"`  // of the request
	Began       time.Time `json:"began"` // the request
	Ended       time.Time `json:"ended"`
	Status      int       `json:"status"` // of upstream's answer
	ContentType string    `json:"content_type"`
	// Cause is how upstream ended: eof, aborted, timeout or shutdown; or
	// client_gone, when it had not.
	Cause string `json:"cause"`
	// Progress is the form of tool events that the request asked for, "" for
	// the configured one.
	Progress string `json:"progress,omitempty"`
	// UsageReported says that the model was known to report usage.
	UsageReported bool `json:"usage_reported,omitempty"`
	// Outcome is what became of the stream.
	Outcome string `json:"outcome"`
	// Truncated says that the recording had become too large and ends early.
	Truncated bool `json:"truncated,omitempty"`
}

// Extension and MetaExtension are the file name extensions of a recording and of its Meta.
const (
	Extension     = ".sse"
	MetaExtension = ".json"
)

// maxMeta is the number of bytes that are read of the file of a Meta, which is far smaller.
const maxMeta = 64 << 10

// ReadMeta reads the Meta of the recording in the file. It returns an empty Meta if there is none,
// or if it is not whole.
func ReadMeta(file string) (m Meta, err error) {
	base, ok := strings.CutSuffix(file, Extension)
	if !ok {
		return m, nil
	}
	var b []byte
	beside, err := os.Open(base + MetaExtension)
	if err == nil {
		defer beside.Close()
		b, err = io.ReadAll(io.LimitReader(beside, maxMeta))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return m, fmt.Errorf("reading the meta data of the recording: %w", err)
	}
	if json.Unmarshal(b, &m) != nil {
		return Meta{}, nil // there is none, or it was cut off: the recording itself may be good
	}
	return m, nil
}

// CauseClientGone is the Cause of a recording that ends where its client left.
const CauseClientGone = "client_gone"

// causes are the names of the causes, by rewrite.Cause.
var causes = []string{
	rewrite.CauseEOF: "eof", rewrite.CauseAborted: "aborted", rewrite.CauseTimeout: "timeout", rewrite.CauseShutdown: "shutdown",
}

// CauseName returns the name of a cause.
func CauseName(c rewrite.Cause) string { return causes[c] }

// ParseCause returns the cause with the name, and CauseEOF for "" and for CauseClientGone.
func ParseCause(name string) (rewrite.Cause, error) {
	if name == "" || name == CauseClientGone {
		return rewrite.CauseEOF, nil
	}
	i := slices.Index(causes, name)
	if i < 0 {
		return 0, fmt.Errorf("invalid cause %q: must be eof, aborted, timeout or shutdown", name)
	}
	return rewrite.Cause(i), nil
}
