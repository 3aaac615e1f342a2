package resumecaddy

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestResumeValuesThatAreRefused in JSON, with what to do.
func TestResumeValuesThatAreRefused(t *testing.T) {
	for option, want := range map[string]string{
		`"detach":"-1s"`:                           "not negative",
		`"detach":600`:                             `write a string such as "10m"`,
		`"keep":"-5m"`:                             "not negative",
		`"keep":5`:                                 `write a string such as "10m"`,
		`"max_stream":65535`:                       "from 64KiB to 1GiB",
		`"max_stream":-1`:                          "from 64KiB to 1GiB",
		`"max_memory":1`:                           "from 64KiB to 1GiB",
		`"max_memory":2000000000`:                  "from 64KiB to 1GiB",
		`"max_detached":-1`:                        "from 1 on",
		`"always_for":{"chat":"-1s"}`:              "not negative",
		`"always_for":{"chat":20}`:                 `write a string such as "10m"`,
		`"always_for":{"chats":"1s"}`:              "must be chat, responses, sessions or runs",
		`"always_for":{"chat":"11m"}`:              "longer than detach, which is 10m0s: raise detach, or shorten it",
		`"always_for":{"runs":"2s"},"detach":"1s"`: "always runs 2s is longer than detach, which is 1s",
		`"key":["chat"]`:                           "must have a placeholder",
		`"key":[]`:                                 "must have a placeholder",
		`"key":["",""]`:                            "must have a placeholder",
	} {
		config := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes_resume",` + option + `}]}]}}}}}`
		var c caddy.Config
		if err := caddy.StrictUnmarshalJSON([]byte(config), &c); err != nil {
			t.Fatal(err)
		}
		c.Admin = &caddy.AdminConfig{Disabled: true}
		err := caddy.Validate(&c)
		name, _, _ := strings.Cut(strings.Trim(option, `"`), `"`)
		if err == nil || !strings.Contains(err.Error(), "invalid "+name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// TestKeyOfPlaceholders: values in their order, text beside placeholders, and no key if no placeholder
// has a value.
func TestKeyOfPlaceholders(t *testing.T) {
	const chat, task = "{http.request.header.X-Chat-Id}", "{http.request.header.X-Task}"
	for _, c := range []struct {
		texts []string
		want  []string
	}{
		{[]string{chat}, []string{"c1"}},
		{[]string{chat, task}, []string{"c1", ""}},
		{[]string{"v1", "chat-" + chat + "-" + chat}, []string{"v1", "chat-c1-c1"}},
		{[]string{"{http.unknown}" + chat}, []string{"c1"}},
		{[]string{`\{` + chat}, []string{"{c1"}},
		{[]string{task}, nil},
		{[]string{"{http.vars.list}"}, nil},
		{[]string{"{http.vars.object}"}, nil},
		{[]string{"v1", "task-" + task, "{http.unknown}"}, nil},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		r.Header.Set("X-Chat-Id", "c1")
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), nil)
		caddyhttp.SetVar(r.Context(), "list", []string{})
		caddyhttp.SetVar(r.Context(), "object", map[string]string{})
		o := resume.DefaultOptions()
		(&ResumeHandler{Key: c.texts}).configure(&o)
		got := o.Key(r)
		if !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%q: got %q, want %q", c.texts, got, c.want)
		}
	}
}

// TestRunHasItsOwn gives handlers after hermes_resume placeholders, variables and fields of
// the log of their own, which begin as those of the client's request; that gets what they
// have set when they are over.
func TestRunHasItsOwn(t *testing.T) {
	client := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	client = caddyhttp.PrepareRequest(client, caddy.NewReplacer(), httptest.NewRecorder(), nil)
	theirs := client.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	theirs.Set("http.before", "1")
	caddyhttp.SetVar(client.Context(), "before", "1")
	groups := client.Context().Value(routeGroups).(map[string]struct{})
	groups["group0"] = struct{}{}

	w := httptest.NewRecorder()
	w.Header().Set("X-Run", "1")
	run, returned := ofRun(client.Clone(client.Context()), w)
	ours := run.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
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
	client := httptest.NewRequest(http.MethodPost, "/v1/runs", nil)
	client = caddyhttp.PrepareRequest(client, caddy.NewReplacer(), httptest.NewRecorder(), nil)
	client.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.before", "1")
	outer, returned := ofRun(client.Clone(client.Context()), httptest.NewRecorder())
	inner, _ := ofRun(outer.Clone(outer.Context()), httptest.NewRecorder())
	ours := inner.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
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
