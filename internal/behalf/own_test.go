package behalf

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// TestRunHasItsOwn gives handlers after hermes_resume placeholders, variables and fields of
// the log of their own, which begin as those of the client's request; that gets what they
// have set when they are over.
func TestRunHasItsOwn(t *testing.T) {
	client := caddytest.Request(http.MethodPost, "/v1/chat/completions", "")
	theirs := caddytest.Replacer(client)
	theirs.Set("http.before", "1")
	caddyhttp.SetVar(client.Context(), "before", "1")
	groups := client.Context().Value(routeGroups).(map[string]struct{})
	groups["group0"] = struct{}{}

	w := httptest.NewRecorder()
	w.Header().Set("X-Run", "1")
	run, returned := OwnRequest(client.Clone(client.Context()), w)
	ours := caddytest.Replacer(run)
	for placeholder, want := range map[string]string{
		"http.before": "1", "http.vars.before": "1", "http.response.header.X-Run": "1", "http.request.uri.path": "/v1/chat/completions", "http.nothing": "",
	} {
		if got, _ := ours.GetString(placeholder); got != want {
			t.Errorf("{%s} is %q, want %q", placeholder, got, want)
		}
	}
	if _, ok := run.Context().Value(routeGroups).(map[string]struct{})["group0"]; !ok {
		t.Error("a group of routes that has matched may match again")
	}
	ours.Set("http.hermes.outcome", "ok")
	caddyhttp.SetVar(run.Context(), "during", "1")
	if _, ok := theirs.Get("http.hermes.outcome"); ok || caddyhttp.GetVar(client.Context(), "during") != nil {
		t.Error("the client's request has it already")
	}
	returned()
	if got, _ := theirs.GetString("http.hermes.outcome"); got != "ok" || caddyhttp.GetVar(client.Context(), "during") != "1" {
		t.Error("the client's request has not got it")
	}
	if _, ok := theirs.Get("http.nothing"); ok { // and does not ask for ever
		t.Error("there is something")
	}
}

// TestRunMayOutliveARunThatItComesFrom: the events of Hermes' runs are read with a request that is made
// of that of another run, and ask for its placeholders while the client gets those of that.
func TestRunMayOutliveARunThatItComesFrom(t *testing.T) {
	client := caddytest.Request(http.MethodPost, "/v1/runs", "")
	caddytest.Replacer(client).Set("http.before", "1")
	outer, returned := OwnRequest(client.Clone(client.Context()), httptest.NewRecorder())
	inner, _ := OwnRequest(outer.Clone(outer.Context()), httptest.NewRecorder())
	ours := caddytest.Replacer(inner)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 1000 { // the race detector sees it
			if got, _ := ours.GetString("http.before"); got != "1" {
				t.Errorf("{http.before} is %q", got)
				return
			}
		}
	}()
	returned()
	<-over
}
