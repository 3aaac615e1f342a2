package caddymodule

import (
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/internal/runs"
	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// process is the state that all configurations of the process share. A reload builds every
// handler anew and cleans the old ones up while their streams go on, so state that must
// reach those streams or outlive the handlers is here. It is a variable of the package
// because Caddy has no value that lives as long: an app, and a value in a UsagePool, go
// with the last configuration that uses them. Only tests replace it.
var process = newShared()

// shared is the state of a process; see process.
type shared struct {
	telemetry  *telemetry.Process    // outlives the handlers, so that counters go on where they were
	streams    proxy.Streams         // the open streams, for the end of the process
	origins    proxy.Origins         // what upstreams say to pages of other origins
	handlers   atomic.Int64          // number of handlers between Provision and Cleanup
	usage      usage.Memory          // which upstreams and models have reported usage
	recordings recording.Directories // in which streams are recorded
	runs       runs.Runs             // that keep their places in line
}

// newShared returns the state of a process that has just begun.
func newShared() *shared {
	of := hermesapp.OfProcess()
	return &shared{telemetry: telemetry.NewProcess(of.Lines, of.Desk)}
}
