package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// TestConfigurationThatIsNotRunDeletesNoRecordings: one that is only validated, or
// refused, with a smaller record_max.
func TestConfigurationThatIsNotRunDeletesNoRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	at := `"record": "` + filepath.ToSlash(dir) + `"`
	h, _ := provision(t, at, t.TempDir())
	for range 20 {
		serve(t, h, answer("a:1", textFrame+usedStop))
	}
	_, cleanup := provision(t, at+`,"record_max": 20000`, t.TempDir())
	cleanup()
	serve(t, h, answer("a:1", textFrame+usedStop))
	if files := caddytest.Files(t, dir, ""); len(files) != 2*21 {
		t.Errorf("%d files, want two of each of 21 recordings", len(files))
	}
}

// TestDirectoryThatCannotBeWrittenToIsRefused when the configuration is loaded, and
// nothing is made for one that can.
func TestDirectoryThatCannotBeWrittenToIsRefused(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(home, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(home, "dangling")
	if err := os.Symlink(filepath.Join(home, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	refused := []string{file, filepath.Join(file, "dir"), dangling, "/proc/hermes/recordings"}
	if os.Getuid() != 0 { // root may write
		refused = append(refused, locked, filepath.Join(locked, "a", "b"))
	}
	for _, dir := range refused {
		err := caddy.Validate(parseConfig(t, jsonConfig(`"record":"`+filepath.ToSlash(dir)+`"`)))
		if err == nil || !strings.Contains(err.Error(), "record") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	there := filepath.Join(home, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{there, filepath.Join(there, "a", "b")} {
		if err := caddy.Validate(parseConfig(t, jsonConfig(`"record":"`+filepath.ToSlash(dir)+`"`))); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 4 {
		t.Errorf("left %v, %v", left, err)
	}
}
