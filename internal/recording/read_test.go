package recording

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestEndlessRecordingsEnd, and the error names the bound.
func TestEndlessRecordingsEnd(t *testing.T) {
	body, err := Open(&caddytest.Endless{Text: "\x00"})
	if err != nil {
		t.Fatal(err)
	}
	err = Pieces(body, func([]byte) error { return nil })
	if !errors.Is(err, errLong) || !strings.Contains(err.Error(), "longer than 1024 MiB") {
		t.Error(err)
	}
}

// TestMeta: what is broken off, or longer than a bound, is none of ours.
func TestMeta(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.sse")
	if m, err := ReadMeta(file); err != nil || m != (Meta{}) {
		t.Errorf("without one: %+v, %v", m, err)
	}
	write := func(s string) {
		if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"path": "/v1/runs/r/events", "cause": "aborted"}`)
	if m, err := ReadMeta(file); err != nil || m.Path != "/v1/runs/r/events" || m.Cause != "aborted" {
		t.Errorf("%+v, %v", m, err)
	}
	write(`{"path": "/x"` + strings.Repeat(" ", maxMeta-100) + "}")
	if m, err := ReadMeta(file); err != nil || m.Path != "/x" {
		t.Errorf("as long as may be: %+v, %v", m, err)
	}
	long := `{"path": "/x"` + strings.Repeat(" ", maxMeta) + "}"
	for _, broken := range []string{"", "{", `{"path": 1}`, long} { // a full disk
		write(broken)
		if m, err := ReadMeta(file); err != nil || m != (Meta{}) {
			t.Errorf("%.20q: %+v, %v", broken, m, err)
		}
	}
	if c, err := ParseCause(CauseClientGone); c != rewrite.CauseEOF || err != nil {
		t.Errorf("a client that has gone: %v, %v", c, err)
	}
	for _, c := range []rewrite.Cause{rewrite.CauseEOF, rewrite.CauseAborted, rewrite.CauseTimeout, rewrite.CauseShutdown} {
		if got, err := ParseCause(CauseName(c)); got != c || err != nil {
			t.Errorf("%v is %q and becomes %v, %v", c, CauseName(c), got, err)
		}
	}
	if _, err := ParseCause("nope"); err == nil || !strings.Contains(err.Error(), "must be eof, aborted, timeout or shutdown") {
		t.Errorf("%v", err)
	}
}
