package telemetry

import (
	"cmp"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// The linker may set both, which wins over what Go writes into the binary:
//
//	-X github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry.version=v1.2.3
var version, commit string

// modulePath is the module that has this package.
const modulePath = "github.com/hermes-sidecar/hermes-sidecar"

// Build says which build of the module runs.
type Build struct {
	Version string // such as v1.2.3, or (devel)
	Commit  string // "" if it is not known
	Go      string // such as go1.26.8
	Caddy   string // the version of Caddy, such as v2.11.4
}

// ThisBuild returns the build that runs.
func ThisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	b := buildOf(info)
	b.Version, b.Commit = cmp.Or(version, b.Version), cmp.Or(commit, b.Commit)
	return b
}

// buildOf returns what Go has written into the binary: of the main module if that is
// ours, otherwise, as in a Caddy that xcaddy has built, of the dependency.
func buildOf(info *debug.BuildInfo) Build {
	b := Build{Go: info.GoVersion}
	if info.Main.Path == modulePath {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = &debug.Module{Path: dep.Path, Version: dep.Replace.Version}
		}
		switch dep.Path {
		case modulePath:
			b.Version = dep.Version
		case caddy.ImportPath:
			b.Caddy = dep.Version
		}
	}
	b.Version, b.Caddy = cmp.Or(b.Version, "(devel)"), cmp.Or(b.Caddy, "(devel)")
	return b
}

// buildInfo returns the metric that has the build as its labels and is always 1.
func buildInfo(b Build) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "caddy", Subsystem: "hermes", Name: "build_info",
		Help: "Always 1. The labels say which version of the sidecar runs, the commit if it is known, and the versions of Go and Caddy.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "commit": b.Commit, "goversion": b.Go, "caddyversion": b.Caddy,
		},
	}, func() float64 { return 1 })
}
