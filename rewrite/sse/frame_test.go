package sse

import "testing"

// TestFieldEndsAtItsFirstColon also if the fifth byte of a line that is no data is a colon.
func TestFieldEndsAtItsFirstColon(t *testing.T) {
	var f Frame
	for line, want := range map[string]string{"id:7:1": "7:1", "id: a:b": "a:b", "id:data:": "data:"} {
		if f.Parse([]byte(line + "\n\n")); string(f.ID) != want || f.HasData {
			t.Errorf("%q: the id is %q, want %q", line, f.ID, want)
		}
	}
}
