package hermesapp

import (
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Process is what all configurations of the process share, so that a reload ends nothing: handlers
// of one configuration go on with it where those of the configuration before are.
type Process struct {
	Lines  *queue.Lines // in which requests wait
	Desk   *desk.Desk   // has the tickets
	Logs   *log.Memory  // of streams that may be resumed
	Secret []byte       // of the keys of Logs
	Runs   *resume.Runs // whose streams may be resumed
	// Drained is the time until which the end of the process waits for Runs, in nanoseconds since
	// 1970; 0 before the process ends.
	Drained atomic.Int64
}

// process is a variable of the package because Caddy has no value that lives as long: an app, and a
// value in a UsagePool, go with the last configuration that uses them.
var process = &Process{
	Lines: new(queue.Lines), Desk: desk.New(),
	Logs: log.NewMemory(), Secret: resume.NewSecret(), Runs: new(resume.Runs),
}

// OfProcess returns what belongs to this process.
func OfProcess() *Process { return process }
