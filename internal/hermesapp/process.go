package hermesapp

import (
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
	"github.com/hermes-sidecar/hermes-sidecar/internal/memory"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/internal/runs"
	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Process is what all configurations of the process share. A reload builds every handler anew and
// cleans the old ones up while their streams go on, so state that must reach those streams or outlive
// the handlers is here. Only tests replace a field.
type Process struct {
	Lines  *queue.Lines // in which requests wait
	Places *runs.Runs   // that keep their places in line
	Desk   *desk.Desk   // has the tickets

	Logs   *log.Memory  // of streams that may be resumed
	Secret []byte       // of the keys of Logs
	Runs   *resume.Runs // whose streams may be resumed

	Streams    *proxy.Streams         // those open, for the end of the process
	Origins    *proxy.Origins         // what upstreams say to pages of other origins
	Memory     *memory.Store          // which tools ran during the answers to clients
	Upstreams  *details.Upstreams     // those that do not tell of tools
	Usage      *usage.Memory          // which upstreams and models have reported usage
	Recordings *recording.Directories // in which streams are recorded
	Telemetry  *telemetry.Process     // outlives the handlers, so that counters go on where they were

	// Configurations is how many have a hermes handler, those included that are only validated.
	Configurations atomic.Int64
}

// process is a variable of the package because Caddy has no value that lives as long: an app, and a
// value in a UsagePool, go with the last configuration that uses them.
var process = newProcess()

// newProcess returns the state of a process that has just begun.
func newProcess() *Process {
	p := &Process{
		Lines: new(queue.Lines), Places: new(runs.Runs), Desk: desk.New(),
		Logs: log.NewMemory(), Secret: resume.NewSecret(), Runs: new(resume.Runs),
		Streams: new(proxy.Streams), Origins: new(proxy.Origins), Memory: new(memory.Store), Usage: new(usage.Memory), Recordings: new(recording.Directories),
	}
	p.Upstreams = new(details.Upstreams)
	p.Telemetry = telemetry.NewProcess(p.Lines, p.Desk)
	return p
}

// OfProcess returns what belongs to this process.
func OfProcess() *Process { return process }
