package recording

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// TestPlantedLinksAreNotFollowed: a user who can write to the directory sees the name
// of a recording that is under way.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, logs := newTestRecorder(dir, 0)
	rec := begin(c)
	for _, name := range []string{rec.name + ".json.tmp", rec.name + ".json"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	end(rec)
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("the target of the link is %q, %v", got, err)
	}
	meta := filepath.Join(dir, rec.name+MetaExtension)
	if info, err := os.Lstat(meta); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", meta, info, err)
	}
	if m, err := ReadMeta(filepath.Join(dir, rec.name+Extension)); err != nil || m.Outcome != "ok" {
		t.Errorf("meta %+v, %v", m, err)
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// TestDirectoryThatIsAPlantedLinkIsNotFollowed: in /tmp anybody may put one. An
// operator's own is followed.
func TestDirectoryThatIsAPlantedLinkIsNotFollowed(t *testing.T) {
	for mode, recorded := range map[os.FileMode]int{0o777 | os.ModeSticky: 0, 0o755: 2} {
		parent, victim := t.TempDir(), t.TempDir()
		if err := os.Chmod(parent, mode); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(parent, "recordings")
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		c, _ := newTestRecorder(link, 0)
		record(c, "x")
		if files := caddytest.Files(t, victim, recordingPrefix); len(files) != recorded {
			t.Errorf("%v: %d files at its target, want %d", mode, len(files), recorded)
		}
		if err := CheckWritable(link); (err == nil) != (recorded > 0) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestRemovedDirectoryIsMadeAgain, for its owner only, and keeps its bounds.
func TestRemovedDirectoryIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	const max = 200_000
	c, logs := newTestRecorder(dir, max)
	for range 3 {
		under := begin(c)
		for range 30 {
			if record(c, strings.Repeat("x", 50_000)) == nil {
				t.Fatal("not recorded")
			}
		}
		if bytes, streams := disk(t, dir); bytes > max || streams < 5 {
			t.Errorf("%d bytes in %d recordings", bytes, streams)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory is %v, %v", info, err)
		}
		end(under)
		if logs.Len() != 0 {
			t.Fatalf("logged %v", logs.All())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfigurationThatHasNotStartedForGoodDeletesNoRecordings: its first servers
// answer already, and it may be refused yet.
func TestConfigurationThatHasNotStartedForGoodDeletesNoRecordings(t *testing.T) {
	dir := t.TempDir()
	c, _ := newTestRecorder(dir, 0)
	for range 20 {
		record(c, strings.Repeat("x", 50_000))
	}
	runs := false
	young := new(Directories).Recorder(silent{}, dir, 200_000, func() bool { return runs }, c.logger)
	young.dir = c.dir
	young.now = c.now
	record(young, strings.Repeat("x", 50_000))
	if _, streams := disk(t, dir); streams != 21 {
		t.Errorf("%d recordings, want 21", streams)
	}
	runs = true
	record(young, strings.Repeat("x", 50_000))
	if bytes, _ := disk(t, dir); bytes > 200_000 {
		t.Errorf("%d bytes of recordings after it has started", bytes)
	}
}
