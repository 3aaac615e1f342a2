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
		`"max_detached":-1`:                        "1 or more",
		`"always_for":{"chat":"-1s"}`:              "not negative",
		`"always_for":{"chat":20}`:                 `write a string such as "10m"`,
		`"always_for":{"chats":"1s"}`:              "must be chat, responses, sessions or runs",
		`"always_for":{"chat":"11m"}`:              "longer than detach, which is 10m0s: raise detach, or shorten it",
		`"always_for":{"runs":"2s"},"detach":"1s"`: "always runs 2s is longer than detach, which is 1s",
		`"key":["chat"]`:                           "must contain a placeholder",
		`"key":[]`:                                 "must contain a placeholder",
		`"key":["",""]`:                            "must contain a placeholder",
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
