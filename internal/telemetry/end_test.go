package telemetry

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestOutcomesThatAreFailures(t *testing.T) {
	good := map[string]bool{proxy.OutcomeOK: true, proxy.OutcomeClientGone: true, proxy.OutcomeEncoded: true}
	for _, o := range outcomes {
		if failed(o) == good[o] {
			t.Errorf("%s: %t", o, failed(o))
		}
	}
}

// TestPlaceholdersAreDocumented in the comment of Handler, from which Caddy's
// documentation is made: all that are set and no others.
func TestPlaceholdersAreDocumented(t *testing.T) {
	source, err := os.ReadFile("../../caddymodule/handler.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^// `\\{http\\.hermes\\.(\\w+)}` \\| ").FindAllSubmatch(source, -1) {
		documented = append(documented, string(m[1]))
	}
	set := slices.Sorted(maps.Keys(new(EndedStream).data()))
	slices.Sort(documented)
	if !slices.Equal(documented, set) {
		t.Errorf("documented are %q, set are %q", documented, set)
	}
}

func TestUpstreamIsTheOneThatReverseProxyChose(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	if got := Upstream(r); got != "" {
		t.Errorf("%q without a replacer, want none", got)
	}
	repl := caddy.NewReplacer()
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
	if got := Upstream(r); got != "" {
		t.Errorf("%q before an upstream is chosen, want none", got)
	}
	repl.Set("http.reverse_proxy.upstream.hostport", "10.1.2.3:8642")
	if got := Upstream(r); got != "10.1.2.3:8642" {
		t.Errorf("%q, want the upstream chosen", got)
	}
}

// TestPlaceholdersAreOfTheLastStream of a request: an error route may have a stream of its own, and
// a handler in front of hermes_resume ends after the one of the run. hermes_resume makes the Replacer
// of the client know that of the run.
func TestPlaceholdersAreOfTheLastStream(t *testing.T) {
	for _, inFront := range []bool{false, true} {
		with := func(repl *caddy.Replacer) *http.Request {
			r := httptest.NewRequest("GET", "/", nil)
			return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
		}
		client, run := caddy.NewReplacer(), caddy.NewReplacer()
		if inFront {
			OfferPlaceholders(with(client))
		}
		client.Map(run.Get)
		OfferPlaceholders(with(run))
		if got := client.ReplaceAll("{http.hermes.outcome}", "?"); got != "?" {
			t.Errorf("before the end %q", got)
		}
		for _, c := range []struct {
			of      *caddy.Replacer
			outcome string
			tools   int
			want    string
		}{
			{run, "upstream_crashed", 1, "upstream_crashed 1 ?"},
			{run, "ok", 2, "ok 2 ?"},
			{client, "ok", 3, "ok 3 ?"},
		} {
			newObserver().end(with(c.of), proxy.Result{Outcome: c.outcome, Summary: rewrite.Summary{Tools: c.tools}})
			if got := client.ReplaceAll("{http.hermes.outcome} {http.hermes.tools} {http.hermes.others}", "?"); got != c.want {
				t.Errorf("with a handler in front %v: %q, want %q", inFront, got, c.want)
			}
		}
	}
}
