package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// users returns how many use the shared state.
func users() int {
	n, _ := inUse.References(sharedKey)
	return n
}

func TestReloadKeepsTheSharedState(t *testing.T) {
	old, cleanOld := provision(t, "", t.TempDir())
	oldShared := old.shared
	// Caddy provisions the new configuration before it cleans the old one up.
	young, cleanYoung := provision(t, `"progress":"bare"`, t.TempDir())
	cleanOld()
	if young.shared != oldShared {
		t.Error("the new configuration has streams of its own, so a shutdown misses those of the old one")
	}
	if n := users(); n != 1 {
		t.Errorf("%d users, want 1", n)
	}
	cleanYoung()
	if n := users(); n != 0 {
		t.Errorf("%d users after all were cleaned up", n)
	}
}

func TestRunningStreamHoldsTheSharedState(t *testing.T) {
	h, cleanup := provision(t, "", t.TempDir())
	state := h.shared
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		close(begun)
		<-end
		_, err := w.Write([]byte("still here"))
		return err
	})
	w := httptest.NewRecorder()
	go func() { done <- h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil), next) }()
	<-begun

	// A configuration without hermes, then one with it, while the stream runs.
	cleanup()
	again, cleanAgain := provision(t, "", t.TempDir())
	if again.shared != state {
		t.Error("the shared state was replaced under a running stream")
	}
	cleanAgain()
	close(end)
	if err := <-done; err != nil {
		t.Errorf("the stream failed: %v", err)
	}
	if w.Body.String() != "still here" {
		t.Errorf("body %q", w.Body)
	}
	if n := users(); n != 0 {
		t.Errorf("%d users after the stream", n)
	}
}

func TestRequestAfterCleanupIsServed(t *testing.T) {
	h, cleanup := provision(t, "", t.TempDir())
	cleanup()
	var seen int
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		seen = users()
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	w := httptest.NewRecorder()
	if err := h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil), next); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusNoContent || seen != 1 || users() != 0 {
		t.Errorf("status %d, %d users during and %d after", w.Code, seen, users())
	}
}

func TestPanicLeavesTheSharedState(t *testing.T) {
	h, cleanup := provision(t, "", t.TempDir())
	defer cleanup()
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() {
			if r := recover(); r != http.ErrAbortHandler {
				t.Errorf("recovered %v, want the abort", r)
			}
		}()
		_ = h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), next)
	}()
	if n := users(); n != 1 {
		t.Errorf("%d users, want 1", n)
	}
}

func TestCleanupTwiceLeavesOnce(t *testing.T) {
	a, _ := provision(t, "", t.TempDir())
	provision(t, "", t.TempDir())
	for range 2 {
		if err := a.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	if n := users(); n != 1 {
		t.Errorf("%d users, want 1", n)
	}
	if err := new(Handler).Cleanup(); err != nil {
		t.Errorf("cleanup without provision: %v", err)
	}
}

// TestReportsOutliveTheirConfiguration: in storage, in the memory of the process, which all
// handlers share, and when they come after Cleanup.
func TestReportsOutliveTheirConfiguration(t *testing.T) {
	const upstream, model = "127.0.0.1:8642", "hermes-agent"
	dir := t.TempDir()
	h, cleanup := provision(t, "", dir)
	h.usage.Of(upstream).Report(model)
	young, cleanYoung := provision(t, "", t.TempDir()) // another storage, so that only memory can tell
	cleanup()
	if !young.usage.Of(upstream).Reported(model) {
		t.Error("a reload loses the report")
	}
	cleanYoung()
	restarted, cleanup := provision(t, "", dir)
	if restarted.shared == h.shared {
		t.Fatal("the memory has survived, which this test is not about")
	}
	cleanup()
	restarted.usage.Of(upstream).Report("late")
	if !restarted.usage.Of(upstream).Reported(model) || !restarted.usage.Of(upstream).Reported("late") {
		t.Error("a report is lost for the streams that are left")
	}
	restarted.usage.Memory.Flush(time.Hour)
	again, _ := provision(t, "", dir)
	if !again.usage.Of(upstream).Reported(model) || !again.usage.Of(upstream).Reported("late") {
		t.Error("a restart loses a report")
	}
}

func TestProvisionSubscribesToStopping(t *testing.T) {
	ctx, err := caddy.ProvisionContext(parseConfig(t, jsonConfig("")))
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	h := app.(*caddyhttp.App).Servers["s"].Routes[0].Handlers[0].(*Handler)
	defer h.Cleanup()
	events, err := ctx.App("events")
	if err != nil {
		t.Fatal(err)
	}
	if !events.(*caddyevents.App).ShouldEmit("stopping") {
		t.Error("nobody listens to stopping")
	}
	// The process is not exiting, so this is a reload: nothing may happen.
	if e := events.(*caddyevents.App).Emit(ctx, "stopping", nil); e.Aborted != nil {
		t.Errorf("aborted: %v", e.Aborted)
	}
}

func TestErrorStatusIsTheHandlerErrors(t *testing.T) {
	e := caddyhttp.Error(http.StatusBadGateway, errors.New("dial"))
	for _, c := range []struct {
		err  error
		want int
	}{
		{e, http.StatusBadGateway},
		{fmt.Errorf("wrapped: %w", e), http.StatusBadGateway},
		{errors.New("plain"), 0},
		{caddyhttp.HandlerError{}, 0},
		{nil, 0},
	} {
		if got := errorStatus(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}
