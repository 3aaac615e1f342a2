package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// TestAnswersHaveTheVersion of the build, unless the option turns that off.
func TestAnswersHaveTheVersion(t *testing.T) {
	for members, want := range map[string]string{"": build.This().Version, `"announce":true`: build.This().Version, `"announce":false`: ""} {
		h, _ := provision(t, members, t.TempDir())
		if got := serve(t, h, answer("a:1", textFrame+usedStop)).Header().Get(proxy.SidecarHeader); got != want {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
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
