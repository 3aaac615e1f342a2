package ask

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestUsersWithoutANameAreNotAsked: what a placeholder has for them says nothing, whatever its type is.
func TestUsersWithoutANameAreNotAsked(t *testing.T) {
	o := &Options{By: "user {http.test.user}"}
	for _, c := range []struct {
		value any
		want  bool
	}{
		{nil, false}, {"", false}, {" \t", false}, {[]string{}, false}, {[]string(nil), false}, {[]any{}, false}, {map[string]any{}, false}, {[]string{""}, false},
		{"ada", true}, {[]string{"ada"}, true}, {0, true}, {false, true}, {http.MethodGet, true},
	} {
		r := chatRequest("/v1/chat/completions", "a:1")
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.test.user", c.value)
		if _, by, ok := o.Owner(r); ok != c.want {
			t.Errorf("%#v: %v, by %q; want %v", c.value, ok, by, c.want)
		}
	}
}
