// Package placeholder finds the user of a request by a text with Caddy's placeholders. It holds no
// state.
package placeholder

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Value returns text with its placeholders replaced by their values for r. ok is false if no value
// tells users apart, so that another user could have the same text.
func Value(r *http.Request, text string) (value string, ok bool) {
	placeholders, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if placeholders == nil {
		return "", false
	}
	// The function returns no error. If Caddy returns one of its own, the value is empty.
	value, _ = placeholders.ReplaceFunc(text, func(_ string, v any) (any, error) {
		ok = ok || tells(v)
		return v, nil
	})
	if !ok {
		return "", false
	}
	return value, true
}

// IsIn reports whether a text has a placeholder.
func IsIn(text string) bool {
	_, rest, opens := strings.Cut(text, "{")
	return opens && strings.Contains(rest, "}")
}

// tells reports whether the value of a placeholder tells users apart. As text, an empty list, such
// as the addresses of an absent certificate, is [], and an empty map is map[].
func tells(value any) bool {
	text := caddy.ToString(value)
	return text != "map[]" && strings.Trim(text, "[] \t\r\n") != ""
}
