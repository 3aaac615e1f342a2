package caddymodule

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/repair"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// recorder writes the streams of upstream's to files in a directory: what
// upstream sent, and beside it what caddy hermes-repair needs to know. Of the
// request there is nothing but its path and the form of tool events that it asks
// for. The files are for their owner only.
type recorder struct {
	shelf  *shelf
	max    int64       // what all recordings on the shelf may take
	runs   func() bool // whether the configuration runs for good
	logger *zap.Logger
	now    func() time.Time
	told   atomic.Bool // the shelf has been told max for good
	failed sync.Once   // that recording fails is said once
}

// newRecorder returns a recorder of a configuration that runs reports to run, and
// that lets all recordings take max bytes, 0 for the default.
func newRecorder(s *shelf, max int64, runs func() bool, logger *zap.Logger) *recorder {
	if max == 0 {
		max = defaultRecordMax
	}
	return &recorder{shelf: s, max: max, runs: runs, logger: logger, now: time.Now}
}

// begin begins a recording, nil where that fails.
func (c *recorder) begin(r *http.Request, status int, h http.Header) proxy.Recording {
	if !c.told.Load() {
		runs := c.runs()
		c.shelf.limit(c.max, runs)
		c.told.Store(runs)
	}
	now := c.now().UTC()
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	name := recordingPrefix + now.Format(recordingTime) + "-" + hex.EncodeToString(id[:])
	share, err := c.shelf.reserve(name)
	if err != nil {
		c.fail(err)
		return nil
	}
	file, err := os.OpenFile(c.shelf.path(name+repair.Extension), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		c.shelf.drop(name)
		c.fail(err)
		return nil
	}
	return &recording{
		recorder: c, file: file, name: name, left: share,
		meta: repair.Meta{
			Path: pathEnd(r.URL.Path), Began: now, Status: status,
			ContentType: logged(h.Get("Content-Type")), Progress: logged(r.Header.Get(proxy.ProgressHeader)),
		},
	}
}

// pathEnd returns the last maxLogged bytes of a path: its end tells what the
// stream is.
func pathEnd(path string) string {
	return strings.ToValidUTF8(path[max(len(path)-maxLogged, 0):], "")
}

// fail says that recording fails, the first time as a warning.
func (c *recorder) fail(err error) {
	log := c.logger.Debug
	c.failed.Do(func() { log = c.logger.Warn })
	log("a stream cannot be recorded", zap.String("dir", c.shelf.dir), zap.Error(err))
}

// recording is a stream that is being recorded.
type recording struct {
	*recorder
	file *os.File
	name string
	left int64 // how many bytes may come
	size int64
	meta repair.Meta
}

// Write implements io.Writer. What is too much is left out, and noted.
func (r *recording) Write(b []byte) (int, error) {
	n := len(b)
	if int64(n) > r.left {
		b = b[:r.left]
		r.meta.Truncated = true
	}
	r.left -= int64(len(b))
	written, err := r.file.Write(b)
	r.size += int64(written)
	if err != nil {
		r.left = 0
		r.meta.Truncated = true
		r.fail(err)
	}
	return n, nil
}

// End implements proxy.Recording.
func (r *recording) End(res proxy.Result, cause rewrite.Cause) {
	r.meta.Ended, r.meta.Cause, r.meta.Outcome = r.now().UTC(), repair.CauseName(cause), res.Outcome
	if res.Outcome == proxy.OutcomeClientGone {
		r.meta.Cause = repair.CauseClientGone
	}
	r.meta.UsageReported = res.UsageReported
	err := r.file.Close()
	b, merr := json.MarshalIndent(r.meta, "", "  ")
	if err = errors.Join(err, merr); err == nil {
		err = r.shelf.write(r.name+repair.MetaExtension, append(b, '\n'))
	}
	r.shelf.keep(r.name, r.size+int64(len(b)))
	if err != nil {
		r.fail(fmt.Errorf("ending the recording: %w", err))
	}
}

// Interface guards
var _ proxy.Recording = (*recording)(nil)
