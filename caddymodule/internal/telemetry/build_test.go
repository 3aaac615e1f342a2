package telemetry

import (
	"runtime/debug"
	"testing"
)

func TestBuildIsOfTheModule(t *testing.T) {
	of := func(path, version string, replaced ...string) *debug.Module {
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
		want Build
	}{
		"a checkout with a tag": {
			debug.BuildInfo{GoVersion: "go1.26.8", Main: *of(modulePath, "v1.2.3"), Deps: []*debug.Module{of(caddy, "v2.11.4")}, Settings: revision},
			Build{"v1.2.3", "0123456789ab", "go1.26.8", "v2.11.4"},
		},
		"a checkout without": {
			debug.BuildInfo{Main: *of(modulePath, "(devel)"), Deps: []*debug.Module{of(caddy, "v2.11.4")}},
			Build{"(devel)", "", "", "v2.11.4"},
		},
		"by xcaddy, whose revision is another's": {
			debug.BuildInfo{Main: *of("caddy", "(devel)"), Deps: []*debug.Module{of(caddy, "v2.11.4"), of(modulePath, "v1.2.3")}, Settings: revision},
			Build{"v1.2.3", "", "", "v2.11.4"},
		},
		"by xcaddy, replaced by a directory": {
			debug.BuildInfo{Main: *of("caddy", "(devel)"), Deps: []*debug.Module{of(caddy, "v2.11.4", "v2.12.0"), of(modulePath, "v0.0.0", "")}},
			Build{"(devel)", "", "", "v2.12.0"},
		},
		"nothing is known": {debug.BuildInfo{}, Build{"(devel)", "", "", "(devel)"}},
	} {
		if got := buildOf(&c.info); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// TestLinkerSaysTheVersion of a build without Go's own knowledge, such as the image's.
func TestLinkerSaysTheVersion(t *testing.T) {
	version, commit = "v1.2.3", "0123456789ab"
	t.Cleanup(func() { version, commit = "", "" })
	if b := ThisBuild(); b.Version != "v1.2.3" || b.Commit != "0123456789ab" || b.Go == "" || b.Caddy == "" {
		t.Errorf("%+v", b)
	}
}
