package hermesapp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// newApp returns the App of a configuration that has a hermes with the default drain_timeout of 10 s.
func newApp(grace, delay time.Duration) (*App, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	a := &App{
		http:  &caddyhttp.App{GracePeriod: caddy.Duration(grace), ShutdownDelay: caddy.Duration(delay)},
		usage: new(usage.Store), logger: zap.New(core),
	}
	a.addLimits(proxy.DefaultMaxRequest, 10*time.Second)
	return a, logs
}

// serve serves a request that p counts, until the drain ends it. It returns when the next handler has
// it; ended is closed at its end.
func serve(p *Process) (ended <-chan struct{}) {
	begun, done := make(chan struct{}), make(chan struct{})
	o := proxy.DefaultOptions()
	o.Streams = p.Streams
	go func() {
		defer close(done)
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		_ = proxy.New(o).Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
			close(begun)
			<-r.Context().Done()
			return nil
		})
	}()
	<-begun
	return done
}

func TestDrain(t *testing.T) {
	for name, c := range map[string]struct {
		grace, streams, runs time.Duration
		warned               int
	}{
		"long enough": {30 * time.Second, 10 * time.Second, 11 * time.Second, 0},
		"without end": {0, 10 * time.Second, 11 * time.Second, 0},
		"too short":   {5 * time.Second, 4500 * time.Millisecond, 4750 * time.Millisecond, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, logs := newApp(c.grace, 0)
			p, began := newProcess(), time.Now()
			ended := serve(p)
			a.drain(p)
			if <-ended; time.Since(began) != c.streams {
				t.Errorf("%s: the stream ended after %v, want %v", name, time.Since(began), c.streams)
			}
			if at := a.until.Sub(began); at != c.runs+reserve {
				t.Errorf("%s: runs have %v, want %v", name, at, c.runs+reserve)
			}
			if logs.Len() != c.warned || logs.FilterLevelExact(zap.WarnLevel).Len() != c.warned {
				t.Errorf("%s: logged %v, want %d warnings", name, logs.All(), c.warned)
			}
		})
	}
}

// TestStreamsThatNoServerWaitsFor end before the process does, at the end of the grace period at the latest.
func TestStreamsThatNoServerWaitsFor(t *testing.T) {
	const grace = 5 * time.Second
	for name, c := range map[string]struct {
		grace, want time.Duration
		open, stays bool
	}{
		"none":            {grace, 0, false, false},
		"one that ends":   {grace, 4500*time.Millisecond + lastWrite, true, false},
		"one that stays":  {grace, grace, true, true},
		"no grace period": {0, 0, true, false}, // Caddy waits for all
	} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newApp(c.grace, 0)
			p, began := newProcess(), time.Now()
			drained := p
			if c.stays {
				drained = newProcess()
			}
			if c.open {
				serve(p)
			}
			a.drain(drained)
			p.wait(a.closes)
			if took := time.Since(began); took < c.want || took > c.want+time.Millisecond { // it looks once a millisecond
				t.Errorf("%s: it waits for %v, want %v", name, took, c.want)
			}
			a.drain(p)
			time.Sleep(time.Minute) // until what is open has ended
		})
	}
}

// TestReloadDrainsNothing: the event comes at every reload as well.
func TestReloadDrainsNothing(t *testing.T) {
	a, logs := newApp(time.Second, 0)
	if err := a.Handle(context.Background(), caddy.Event{}); err != nil || logs.Len() > 0 {
		t.Errorf("%v, logged %v", err, logs.All())
	}
	stop, ok := process.Streams.AtShutdown(func() {})
	if !ok || !a.until.IsZero() {
		t.Fatal("the drain has begun")
	}
	stop()
}

// Caddy's debug log encodes event handlers as JSON.
func TestAppShowsNothingInLogs(t *testing.T) {
	a, _ := newApp(0, 0)
	b, err := json.Marshal(a) //lint:ignore SA9005 that nothing is shown is what is tested
	if err != nil || string(b) != "{}" {
		t.Errorf("encoded as %s, error %v", b, err)
	}
}

func TestStreamsEndBeforeTheGracePeriod(t *testing.T) {
	for _, c := range []struct{ grace, delay, want time.Duration }{
		{0, 0, 0},                                          // an eternal grace period has no end
		{0, time.Minute, 0},                                //
		{-1, 0, 0},                                         //
		{10 * time.Second, 0, 9 * time.Second},             // a tenth is kept
		{time.Second, 0, 750 * time.Millisecond},           // at least 250 ms
		{125 * time.Second, 0, 2 * time.Minute},            // at most 5 s
		{100 * time.Millisecond, 0, 50 * time.Millisecond}, // but never all of it
		{2, 0, 1},
		{10 * time.Second, 5 * time.Second, 14 * time.Second}, // it begins after the delay
		{10 * time.Second, -1, 9 * time.Second},
	} {
		a, _ := newApp(c.grace, c.delay)
		if got, _ := a.limits(); got != c.want {
			t.Errorf("grace period %v after %v: limit %v, want %v", c.grace, c.delay, got, c.want)
		}
	}
	if streams, servers := new(App).limits(); streams != 0 || servers != 0 {
		t.Errorf("without servers: %v, %v", streams, servers)
	}
}

func TestStreamsWithoutAnAppAreWatchedUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		polls := 0
		exiting := func() bool { polls++; return polls > 3 }

		p.watchExit(exiting, time.Nanosecond) // no stream
		p.Configurations.Store(1)
		ended := serve(p)
		p.watchExit(exiting, time.Nanosecond) // an App hears of the end
		if polls != 0 {
			t.Errorf("polled %d times, want none", polls)
		}
		p.Configurations.Store(0)
		p.watchExit(exiting, time.Nanosecond)
		<-ended
		if polls != 4 {
			t.Errorf("polled %d times, want 4", polls)
		}
	})
}

// TestCleanupWithoutHermes counts nothing: only a hermes handler has been counted.
func TestCleanupWithoutHermes(t *testing.T) {
	if err := new(App).Cleanup(); err != nil || process.Configurations.Load() != 0 {
		t.Errorf("%v, %d configurations", err, process.Configurations.Load())
	}
}
