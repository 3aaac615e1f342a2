// Package placeholder says who a request is of, by a text with placeholders of Caddy's. It holds no
// state.
package placeholder

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Value returns a text with the values of its placeholders for r. ok is false if none of them tells
// users apart: any other user could have the same.
func Value(r *http.Request, text string) (value string, ok bool) {
	placeholders, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if placeholders == nil {
		return "", false
	}
	// The function returns no error, and Caddy's own leaves the value empty.
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

// tells reports whether the value of a placeholder tells users apart. An empty list, such as that
// of the addresses in a certificate that is not there, is [] in a text, and a map is map[].
func tells(value any) bool {
	text := caddy.ToString(value)
	return text != "map[]" && strings.Trim(text, "[] \t\r\n") != ""
}
