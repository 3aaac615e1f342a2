package hermesapp

import (
	"errors"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/internal/replicas"
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

// TestForeignMetricsOfTheSameNameAreNoError of the configuration, nor are ours of another handler.
func TestForeignMetricsOfTheSameNameAreNoError(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gen_ai_client_operation_duration_seconds", Help: "Of another module."}, []string{"model"}))
	ours := newProcess().Telemetry.Metrics()
	if err := register(registry, ours); err == nil {
		t.Error("there is no error")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range families {
		found = found || f.GetName() == "caddy_hermes_tool_duration_seconds"
	}
	if !found {
		t.Error("the other metrics are missing")
	}
	registry = prometheus.NewPedanticRegistry()
	for range 2 {
		if err := register(registry, ours); err != nil {
			t.Error(err)
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

// TestReplicasAreOneSite: a configuration has one set of them, which each handler may name.
func TestReplicasAreOneSite(t *testing.T) {
	of := func(secret string, addresses ...string) *replicas.Replicas {
		r, err := replicas.New(addresses, secret, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a := new(App)
	first := of("secret", "http://a:1", "http://b:1")
	if err := errors.Join(a.AddReplicas(first), a.AddReplicas(of("secret", "http://a:1/", "http://b:1"))); err != nil || a.Replicas() != first {
		t.Errorf("%v, %v", a.Replicas(), err)
	}
	for _, other := range []*replicas.Replicas{of("secret", "http://a:1"), of("secret2", "http://a:1", "http://b:1"), of("secret", "http://a:1", "http://b:2"), of("secret", "http://a:1/x", "http://b:1/x")} {
		if err := a.AddReplicas(other); err == nil {
			t.Errorf("%+v is the same", other)
		}
	}
}
