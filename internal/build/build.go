// Package build says which build of the sidecar runs: for the command version, the log and
// the metric build_info.
package build

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// The linker may set both. They override what Go writes into the binary:
//
//	-X github.com/hermes-sidecar/hermes-sidecar/internal/build.version=v1.2.3
var version, commit string

// modulePath is the module that has this package.
const modulePath = "github.com/hermes-sidecar/hermes-sidecar"

// Info says which build of the module runs.
type Info struct {
	Version string // such as v1.2.3, or (devel)
	Commit  string // "" if it is not known
	Go      string // such as go1.26.8
	Caddy   string // the version of Caddy, such as v2.11.4
}

// This returns the build that runs.
func This() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	b := of(info)
	b.Version, b.Commit = cmp.Or(version, b.Version), cmp.Or(commit, b.Commit)
	return b
}

// of returns the build that info, which Go writes into the binary, describes. The sidecar is its
// main module or, as in a Caddy built by xcaddy, a dependency, whose commit is not known.
func of(info *debug.BuildInfo) Info {
	b := Info{Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Path == modulePath {
			b.Commit = s.Value
		}
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		switch from := cmp.Or(m.Replace, m); m.Path {
		case modulePath:
			b.Version = from.Version
		case caddy.ImportPath:
			b.Caddy = from.Version
		}
	}
	b.Version, b.Caddy = cmp.Or(b.Version, "(devel)"), cmp.Or(b.Caddy, "(devel)")
	return b
}

// String returns the version and the commit, such as "v1.2.3 (0123456789ab)". The commit has 12
// digits, as in Go's pseudo-versions, and is left out if the version contains it.
func (b Info) String() string {
	short := b.Commit[:min(len(b.Commit), 12)]
	if short == "" || strings.Contains(b.Version, short) {
		return b.Version
	}
	return b.Version + " (" + short + ")"
}

// CustomVersion returns the text that the command version prints before Caddy's version.
func (b Info) CustomVersion() string { return "hermes-sidecar " + b.String() + ", Caddy" }
