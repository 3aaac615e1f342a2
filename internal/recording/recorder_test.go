package recording

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// silent is an observer of nothing.
type silent struct{ proxy.AnswerObserver }

func (silent) Request(*http.Request, rewrite.Healed)                   {}
func (s silent) Begin(*http.Request, proxy.Begun) proxy.AnswerObserver { return s }
func (silent) End(*http.Request, proxy.Result)                         {}

// begin begins a recording with c, nil if that fails.
func begin(c *Recorder) *recording {
	rec, _ := c.Begin(httptest.NewRequest("POST", "/x", nil), proxy.Begun{Status: http.StatusOK, Raw: true}).(*recording)
	return rec
}

// end ends the recording.
func end(rec *recording) { rec.End(nil, proxy.Result{Outcome: "ok"}) }

// record records body with c.
func record(c *Recorder, body string) *recording {
	rec := begin(c)
	if rec != nil {
		rec.Raw([]byte(body))
		end(rec)
	}
	return rec
}

// newTestRecorder returns one whose clock goes on by a second for each question.
func newTestRecorder(dir string, max int64) (*Recorder, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	c := new(Directories).Recorder(silent{}, dir, max, func() bool { return true }, zap.New(core))
	now := time.Unix(1795164800, 0)
	c.now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	return c, logs
}

// disk returns how many bytes the recordings in dir take, and how many streams
// there are.
func disk(t *testing.T, dir string) (bytes int64, streams int) {
	t.Helper()
	for name, content := range caddytest.Files(t, dir, recordingPrefix) {
		if recordingName.MatchString(name) {
			bytes += (int64(len(content)) + diskBlock - 1) / diskBlock * diskBlock
			if strings.HasSuffix(name, Extension) {
				streams++
			}
		}
	}
	return bytes, streams
}

func TestRecordingsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for _, mine := range []string{"mine.sse", "hermes-agent.log", "hermes-20261120T000000.000Z-0123456.sse"} {
		if err := os.WriteFile(filepath.Join(dir, mine), make([]byte, 200_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const max = 200_000
	c, _ := newTestRecorder(dir, max)
	for range 60 {
		record(c, strings.Repeat("x", 50_000))
	}
	if bytes, streams := disk(t, dir); bytes > max || streams < 5 {
		t.Errorf("%d bytes in %d recordings", bytes, streams)
	}
	for name, content := range caddytest.Files(t, dir, recordingPrefix) {
		if !recordingName.MatchString(name) || !strings.HasSuffix(name, Extension) {
			continue
		}
		if meta, err := ReadMeta(filepath.Join(dir, name)); err != nil || !meta.Truncated || len(content) != max/recordShare {
			t.Errorf("%s: %d bytes, %+v, %v", name, len(content), meta, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "hermes-agent.log")); err != nil {
		t.Errorf("a file that is none of ours is gone: %v", err)
	}

	// Another process goes on where this one was.
	c, _ = newTestRecorder(dir, max)
	record(c, "x")
	if bytes, _ := disk(t, dir); bytes > max {
		t.Errorf("%d bytes after a restart", bytes)
	}
}

// TestThereAreAtMostMaxRecordings, however small they are.
func TestThereAreAtMostMaxRecordings(t *testing.T) {
	dir := t.TempDir()
	c, _ := newTestRecorder(dir, 1<<30)
	for i := range maxRecordings - 10 {
		name := fmt.Sprintf("hermes-20200101T000000.000Z-%08x.sse", i)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		record(c, "x")
	}
	if _, streams := disk(t, dir); streams != maxRecordings {
		t.Errorf("%d recordings, want %d", streams, maxRecordings)
	}
}

// TestOpenRecordingsHaveTheirRoom: they are not removed, nor is more begun than
// there is room for.
func TestOpenRecordingsHaveTheirRoom(t *testing.T) {
	dir := t.TempDir()
	c, logs := newTestRecorder(dir, 200_000)
	var open []*recording
	for range 30 {
		if rec := begin(c); rec != nil {
			rec.Raw([]byte(strings.Repeat("x", 50_000)))
			open = append(open, rec)
		}
	}
	if len(open) != recordShare || logs.FilterLevelExact(zap.WarnLevel).Len() != 1 {
		t.Errorf("%d recordings are open, want %d; %d warnings", len(open), recordShare, logs.FilterLevelExact(zap.WarnLevel).Len())
	}
	for _, rec := range open {
		end(rec)
	}
	if files := caddytest.Files(t, dir, recordingPrefix); len(files) != 2*len(open) {
		t.Errorf("%d files of %d recordings", len(files), len(open))
	}
	if record(c, "x") == nil {
		t.Error("there is no room although all have ended")
	}
}

// TestRecordersOfOneDirectoryShareIt.
func TestRecordersOfOneDirectoryShareIt(t *testing.T) {
	s, dir := new(Directories), t.TempDir()
	if s.get(dir) != s.get(filepath.Join(dir, "x", "..")) {
		t.Error("they do not")
	}
}

// TestRecordingThatFailsHarmsNoStream, and is said once.
func TestRecordingThatFailsHarmsNoStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, logs := newTestRecorder(filepath.Join(file, "dir"), 0)
	for range 3 {
		if rec := record(c, "x"); rec != nil {
			t.Errorf("recorded %v", rec)
		}
	}
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 || logs.Len() != 3 {
		t.Errorf("%d warnings in %d lines", n, logs.Len())
	}
}
