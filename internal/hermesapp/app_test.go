package hermesapp

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// TestLimits: hermes_resume keeps what any hermes reads, and waits as long as any drains.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		add  func(*App)
		size int64
		time time.Duration
	}{
		"no hermes": {func(*App) {}, proxy.DefaultMaxRequest, proxy.DefaultOptions().DrainTimeout},
		"one":       {func(a *App) { a.addLimits(1024, time.Second) }, 1024, time.Second},
		"no drain":  {func(a *App) { a.addLimits(1024, 0) }, 1024, 0},
		"several": {func(a *App) {
			a.addLimits(1024, time.Minute)
			a.addLimits(4096, time.Second)
			a.addLimits(2048, 0)
		}, 4096, time.Minute},
	} {
		a := new(App)
		c.add(a)
		if size, d := a.MaxRequest(), a.DrainTimeout(); size != c.size || d != c.time {
			t.Errorf("%s: %d, %v; want %d, %v", name, size, d, c.size, c.time)
		}
	}
}

// TestAppNeedsNoConfiguration, and there is one in each.
func TestAppNeedsNoConfiguration(t *testing.T) {
	var apps []*App
	for range 2 {
		ctx, err := caddy.ProvisionContext(&caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			app, err := Of(ctx)
			if err != nil {
				t.Fatal(err)
			}
			apps = append(apps, app)
		}
	}
	if apps[0] != apps[1] || apps[2] != apps[3] || apps[0] == apps[2] {
		t.Errorf("%p", apps)
	}
}
