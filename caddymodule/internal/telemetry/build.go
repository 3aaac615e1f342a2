package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

// buildInfo returns the metric that has the build as its labels and is always 1.
func buildInfo(b build.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "caddy", Subsystem: "hermes", Name: "build_info",
		Help: "Always 1. The labels say which version of the sidecar runs, the commit if it is known, and the versions of Go and Caddy.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "commit": b.Commit, "goversion": b.Go, "caddyversion": b.Caddy,
		},
	}, func() float64 { return 1 })
}
