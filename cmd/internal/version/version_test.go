package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	vcs := []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "vcs.revision", Value: revision}}
	for _, c := range []struct {
		name            string
		main            string
		settings        []debug.BuildSetting
		version, commit string
		want            string
	}{
		{"a release", "v1.2.3", vcs, "v1.2.3", revision, "hermes-sidecar v1.2.3 (0123456789ab), Caddy"},
		{"the linker knows best", "v0.1.0", vcs, "v1.2.3", "fedcba9876543210", "hermes-sidecar v1.2.3 (fedcba987654), Caddy"},
		{"the image, without git", "(devel)", nil, "v1.2.3", revision, "hermes-sidecar v1.2.3 (0123456789ab), Caddy"},
		{"the image of nobody in particular", "(devel)", nil, "devel", "unknown", "hermes-sidecar devel (unknown), Caddy"},
		{"go install", "v1.2.3", nil, "", "", "hermes-sidecar v1.2.3, Caddy"},
		{"a checkout at a tag", "v1.2.3", vcs, "", "", "hermes-sidecar v1.2.3 (0123456789ab), Caddy"},
		{"a checkout", "v0.0.0-20261122084412-0123456789ab+dirty", vcs, "", "", "hermes-sidecar v0.0.0-20261122084412-0123456789ab+dirty, Caddy"},
		{"a short commit", "", nil, "v1.2.3", "abc", "hermes-sidecar v1.2.3 (abc), Caddy"},
		{"nothing is known", "", nil, "", "", "hermes-sidecar (devel), Caddy"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := of(info, c.version, c.commit); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
