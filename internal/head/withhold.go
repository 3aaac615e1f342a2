package head

import (
	"net/http"
	"slices"
	"strings"
)

// Withhold removes from h the field with the name, whose words begin with capitals, however it is
// written: in any case, with underscores, more than once. It also removes the name from what the
// field Connection lists, because a proxy would remove a field that is listed there. Values of h are
// not written to.
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

// sameField reports whether two names are those of one field for some server: CGI and its like take
// an underscore for a hyphen.
func sameField(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(strings.ReplaceAll(a, "_", "-"), b)
}
