// Package version says which version of the sidecar a program is.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Of returns what the command version prints in front of Caddy's version, such as
// "hermes-sidecar v1.2.3 (0123456789ab), Caddy". Version and commit are what the linker
// was told; either may be empty. Then they are those that Go recorded in the binary:
// go install knows the version, a build in a checkout the commit, too.
func Of(version, commit string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return of(info, version, commit)
}

func of(info *debug.BuildInfo, version, commit string) string {
	version = cmp.Or(version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = cmp.Or(commit, s.Value)
		}
	}
	// As many digits as Go's own pseudo-versions have, which need no commit beside them.
	commit = commit[:min(len(commit), 12)]
	if commit != "" && !strings.Contains(version, commit) {
		version += " (" + commit + ")"
	}
	return "hermes-sidecar " + version + ", Caddy"
}
