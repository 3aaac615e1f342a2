package placeholder

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestValue: what a placeholder has for a user without a name says nothing, whatever its type is.
func TestValue(t *testing.T) {
	for _, c := range []struct {
		text string
		user any
		want string
	}{
		{"{test.user}", nil, ""}, {"{test.user}", "", ""}, {"{test.user}", " \t", ""}, {"{test.user}", []string{}, ""},
		{"{test.user}", []any{}, ""}, {"{test.user}", map[string]any{}, ""}, {"{test.user}", []string{""}, ""},
		{"x", "ada", ""}, {"x{test.other}", "ada", ""}, {"x{test.other}-{test.user}", "", ""},
		{"{test.user}", "ada", "ada"}, {"x{test.other}-{test.user}", "ada", "x-ada"}, {"{test.user}", []string{"ada"}, "[ada]"},
		{"{test.user}", 0, "0"}, {"{test.user}", "{test.other}", "{test.other}"},
	} {
		placeholders := caddy.NewReplacer()
		placeholders.Set("test.user", c.user)
		placeholders.Set("test.other", "")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, placeholders))
		if got, ok := Value(r, c.text); got != c.want || ok != (c.want != "") {
			t.Errorf("%s with %#v: %q, %v, want %q", c.text, c.user, got, ok, c.want)
		}
	}
	if got, ok := Value(httptest.NewRequest(http.MethodGet, "/", nil), "{test.user}"); got != "" || ok {
		t.Errorf("without placeholders: %q, %v", got, ok)
	}
}

// TestIsIn.
func TestIsIn(t *testing.T) {
	for text, want := range map[string]bool{"{a}": true, "x{a}y": true, "": false, "a": false, "{a": false, "}a{": false} {
		if got := IsIn(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
