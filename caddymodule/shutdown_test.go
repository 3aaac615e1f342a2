package caddymodule

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// shutdowns records calls of Shutdown.
type shutdowns struct{ limits []time.Duration }

func (s *shutdowns) Shutdown(limit time.Duration) { s.limits = append(s.limits, limit) }

// newDrain returns a drain that thinks the process is exiting or not.
func newDrain(exiting bool, grace, delay time.Duration) (*drain, *shutdowns, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	s := new(shutdowns)
	return &drain{
		streams: s,
		timeout: 10 * time.Second,
		limit:   httpapp.DrainLimit(grace, delay),
		exiting: func() bool { return exiting },
		logger:  zap.New(core),
	}, s, logs
}

func TestStopping(t *testing.T) {
	for name, c := range map[string]struct {
		exiting bool
		grace   time.Duration
		limits  []time.Duration // of the shutdowns
		warned  int
	}{
		"the process exits":                {true, 30 * time.Second, []time.Duration{27 * time.Second}, 0},
		"a reload":                         {false, 30 * time.Second, nil, 0},
		"a grace period that is too short": {true, 5 * time.Second, []time.Duration{4500 * time.Millisecond}, 1},
	} {
		d, s, logs := newDrain(c.exiting, c.grace, 0)
		if err := d.Handle(context.Background(), caddy.Event{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.limits, c.limits) {
			t.Errorf("%s: shutdowns %v, want %v", name, s.limits, c.limits)
		}
		if logs.Len() != c.warned || logs.FilterLevelExact(zap.WarnLevel).Len() != c.warned {
			t.Errorf("%s: logged %v, want %d warnings", name, logs.All(), c.warned)
		}
	}
}

// Caddy's debug log encodes event handlers as JSON.
func TestDrainShowsNothingInLogs(t *testing.T) {
	d, _, _ := newDrain(true, 0, 0)
	b, err := json.Marshal(d) //lint:ignore SA9005 that nothing is shown is what is tested
	if err != nil || string(b) != "{}" {
		t.Errorf("encoded as %s, error %v", b, err)
	}
}

func TestStreamsWithoutAHandlerAreWatchedUntilTheEnd(t *testing.T) {
	s := newShared()
	polls := 0
	exiting := func() bool { polls++; return polls > 3 }

	s.watchExit(exiting, time.Nanosecond) // no stream
	s.handlers.Store(1)
	blocked, done := make(chan struct{}), make(chan struct{})
	p := proxy.New(proxy.Options{Streams: &s.streams})
	go func() {
		defer close(done)
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		_ = p.Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
			close(blocked)
			<-r.Context().Done() // the drain ends it
			return nil
		})
	}()
	<-blocked
	s.watchExit(exiting, time.Nanosecond) // a handler hears of the end
	if polls != 0 {
		t.Errorf("polled %d times, want none", polls)
	}
	s.handlers.Store(0)
	s.watchExit(exiting, time.Nanosecond)
	<-done
	if polls != 4 {
		t.Errorf("polled %d times, want 4", polls)
	}
}
