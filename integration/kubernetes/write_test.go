package kubernetes

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWriteRenderings writes all of them into the directory that HERMES_RENDERED
// names, for the test with a real API server.
func TestWriteRenderings(t *testing.T) {
	dir := os.Getenv("HERMES_RENDERED")
	if dir == "" {
		t.Skip("HERMES_RENDERED names no directory")
	}
	put := func(r rendering) {
		if err := os.WriteFile(filepath.Join(dir, r.name+".yaml"), r.yaml, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		put(kustomized(t, name))
	}
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		put(charted(t, "hermes", name))
	}
}
