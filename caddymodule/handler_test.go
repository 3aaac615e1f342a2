package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestReportsOutliveTheirConfiguration: in storage, in the memory of the process, which all
// handlers share, and when they come after Cleanup.
func TestReportsOutliveTheirConfiguration(t *testing.T) {
	const upstream, model = "127.0.0.1:8642", "hermes-agent"
	reported := func(h *Handler, model string) bool {
		look(h)
		return h.usage.Of(upstream).Reported(model)
	}
	h, cleanup := provision(t, "", t.TempDir())
	h.usage.Of(upstream).Report(model)
	dir := t.TempDir() // another storage, so that only memory can tell
	young, cleanYoung := provision(t, "", dir)
	cleanup()
	if !reported(young, model) {
		t.Error("a reload loses the report")
	}
	cleanYoung()
	restarted, cleanup := provision(t, "", dir)
	if restarted.usage.Memory == h.usage.Memory {
		t.Fatal("the memory has survived, which this test is not about")
	}
	cleanup()
	restarted.usage.Of(upstream).Report("late")
	if !reported(restarted, model) || !reported(restarted, "late") {
		t.Error("a report is lost for the streams that are left")
	}
	again, _ := provision(t, "", dir)
	if !reported(again, model) || !reported(again, "late") {
		t.Error("a restart loses a report")
	}
}

// TestErrorsThatArePassedOnAreShort, and still what they were.
func TestErrorsThatArePassedOnAreShort(t *testing.T) {
	long := fmt.Errorf("malformed MIME header line: %s: %w", strings.Repeat("é", 1<<20), context.DeadlineExceeded)
	bad := caddyhttp.Error(http.StatusBadGateway, long)
	for name, err := range map[string]error{
		"plain":              long,
		"of a handler":       bad,
		"around a handler's": fmt.Errorf("so: %w", bad),
		"long around one":    fmt.Errorf("%s: %w", strings.Repeat("x", 1<<20), caddyhttp.Error(http.StatusBadGateway, context.DeadlineExceeded)),
	} {
		t.Run(name, func(t *testing.T) {
			got := passedError(err)
			if n := len(got.Error()); n > 1024+200 {
				t.Errorf("its text has %d bytes", n)
			}
			if !errors.Is(got, context.DeadlineExceeded) {
				t.Error("errors.Is does not find what it wraps")
			}
			want, is := errors.AsType[caddyhttp.HandlerError](err)
			he, still := errors.AsType[caddyhttp.HandlerError](got)
			if is != still || he.StatusCode != want.StatusCode || he.ID != want.ID || he.Trace != want.Trace {
				t.Errorf("it is %v", got)
			}
			if still && len(he.Err.Error()) > 1024 {
				t.Errorf("Caddy logs %d bytes of it", len(he.Err.Error()))
			}
		})
	}
	for _, err := range []error{nil, context.Canceled, caddyhttp.Error(http.StatusBadGateway, errors.New("short")), http.ErrAbortHandler} {
		if got := passedError(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
