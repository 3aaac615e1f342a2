package build

import (
	"runtime/debug"
	"testing"
)

func TestBuildIsOfTheModule(t *testing.T) {
	module := func(path, version string, replaced ...string) *debug.Module {
		m := &debug.Module{Path: path, Version: version}
		for _, v := range replaced {
			m.Replace = &debug.Module{Path: "../elsewhere", Version: v}
		}
		return m
	}
	const caddy = "github.com/caddyserver/caddy/v2"
	revision := []debug.BuildSetting{{Key: "vcs.modified", Value: "false"}, {Key: "vcs.revision", Value: "0123456789ab"}}
	for what, c := range map[string]struct {
		info debug.BuildInfo
		want Info
	}{
		"a checkout with a tag": {
			debug.BuildInfo{GoVersion: "go1.26.8", Main: *module(modulePath, "v1.2.3"), Deps: []*debug.Module{module(caddy, "v2.11.4")}, Settings: revision},
			Info{"v1.2.3", "0123456789ab", "go1.26.8", "v2.11.4"},
		},
		"a checkout without": {
			debug.BuildInfo{Main: *module(modulePath, "(devel)"), Deps: []*debug.Module{module(caddy, "v2.11.4")}},
			Info{"(devel)", "", "", "v2.11.4"},
		},
		"by xcaddy, whose revision is another's": {
			debug.BuildInfo{Main: *module("caddy", "(devel)"), Deps: []*debug.Module{module(caddy, "v2.11.4"), module(modulePath, "v1.2.3")}, Settings: revision},
			Info{"v1.2.3", "", "", "v2.11.4"},
		},
		"by xcaddy, replaced by a directory": {
			debug.BuildInfo{Main: *module("caddy", "(devel)"), Deps: []*debug.Module{module(caddy, "v2.11.4", "v2.12.0"), module(modulePath, "v0.0.0", "")}},
			Info{"(devel)", "", "", "v2.12.0"},
		},
		"nothing is known": {debug.BuildInfo{}, Info{"(devel)", "", "", "(devel)"}},
	} {
		if got := of(&c.info); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// TestLinkerSaysTheVersion of a build without Go's own knowledge, such as the image's.
func TestLinkerSaysTheVersion(t *testing.T) {
	version, commit = "v1.2.3", "0123456789ab"
	t.Cleanup(func() { version, commit = "", "" })
	if b := This(); b.Version != "v1.2.3" || b.Commit != "0123456789ab" || b.Go == "" || b.Caddy == "" {
		t.Errorf("%+v", b)
	}
}

func TestString(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct{ version, commit, want string }{
		{"v1.2.3", revision, "v1.2.3 (0123456789ab)"},
		{"v1.2.3", "abc", "v1.2.3 (abc)"},
		{"v1.2.3", "", "v1.2.3"},
		{"devel", "unknown", "devel (unknown)"}, // an image that is built without arguments
		{"v0.0.0-20261122084412-0123456789ab+dirty", revision, "v0.0.0-20261122084412-0123456789ab+dirty"},
	} {
		if got := (Info{Version: c.version, Commit: c.commit}).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
