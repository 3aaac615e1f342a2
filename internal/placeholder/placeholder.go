// Package placeholder replaces Caddy's placeholders in the texts of options by what a request has
// for them. It holds no state.
package placeholder

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Value returns text with its placeholders replaced by their values for r. ok is false if none of
// them has a value, so that other requests could have the same text.
func Value(r *http.Request, text string) (value string, ok bool) {
	values, ok := Values(r, text)
	if !ok {
		return "", false
	}
	return values[0], true
}

// Values is Value for several texts. ok is false if no placeholder of any of them has a value.
func Values(r *http.Request, texts ...string) (values []string, ok bool) {
	placeholders, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if placeholders == nil {
		return nil, false
	}
	for _, text := range texts {
		// The function returns no error. If Caddy returns one of its own, the value is empty.
		value, _ := placeholders.ReplaceFunc(text, func(_ string, v any) (any, error) {
			ok = ok || !isEmpty(v)
			return v, nil
		})
		values = append(values, value)
	}
	return values, ok
}

// IsIn reports whether a text has a placeholder.
func IsIn(text string) bool {
	_, rest, opens := strings.Cut(text, "{")
	return opens && strings.Contains(rest, "}")
}

// isEmpty reports whether the value of a placeholder says nothing. As text, an empty list, such as
// the addresses of an absent certificate, is [], and an empty map is map[].
func isEmpty(value any) bool {
	text := caddy.ToString(value)
	return text == "map[]" || strings.Trim(text, "[] \t\r\n") == ""
}
