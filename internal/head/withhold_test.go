package head

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

// TestWithhold: no spelling of the name remains, and Connection does not list it. All else stays, and so
// do the values, which another header shares.
func TestWithhold(t *testing.T) {
	connection := []string{"close", "x-key, X-More,X_KEY"}
	h := http.Header{
		"X-Key": {"a"}, "X_key": {"b"}, "x-KEY": {"c"}, "X-Key-2": {"d"}, "X-Ke": {"e"}, "Xxkey": {"f"}, "Connection": connection,
	}
	Withhold(h, "X-Key")
	if got, want := slices.Sorted(maps.Keys(h)), []string{"Connection", "X-Ke", "X-Key-2", "Xxkey"}; !slices.Equal(got, want) {
		t.Errorf("%q remain, want %q", got, want)
	}
	if got, want := h["Connection"], []string{"close", " X-More"}; !slices.Equal(got, want) {
		t.Errorf("Connection is %q, want %q", got, want)
	}
	if connection[1] != "x-key, X-More,X_KEY" {
		t.Errorf("the values were written to: %q", connection)
	}
}
