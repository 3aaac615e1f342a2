package head

import (
	"net/http"
	"slices"
	"strings"
)

// Withhold removes from h the field with the canonical name in every spelling: in any case, and
// with underscores for hyphens. It also removes the name from the field Connection, because a
// proxy would remove a field that is listed there. It does not write to the values of h.
func Withhold(h http.Header, name string) {
	for key := range h {
		if sameField(key, name) {
			delete(h, key)
		}
	}
	listed := func(token string) bool { return sameField(strings.TrimSpace(token), name) }
	for i, line := range h["Connection"] {
		tokens := strings.Split(line, ",")
		if !slices.ContainsFunc(tokens, listed) {
			continue
		}
		lines := slices.Clone(h["Connection"])
		lines[i] = strings.Join(slices.DeleteFunc(tokens, listed), ",")
		h["Connection"] = lines
	}
}

// sameField reports whether some server reads the name a as the name b, which is canonical: CGI
// and the like read an underscore as a hyphen.
func sameField(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(strings.ReplaceAll(a, "_", "-"), b)
}
