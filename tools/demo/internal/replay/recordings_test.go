package replay

import (
	"os"
	"path/filepath"
	"testing"
)

// recording reads a recorded stream of any release.
func recording(t *testing.T, release, name string) []byte {
	t.Helper()
	stream, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "captures", release, name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// byName returns a scenario.
func byName(t *testing.T, name string) Scenario {
	t.Helper()
	chosen, err := Select([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}
