// Package recording writes and reads recordings of streams, for bug reports and caddy
// hermes-repair. A recording is a file with the bytes that upstream sent, and a file with its
// Meta. A directory makes room for its recordings, and a Recorder belongs to a handler. A
// recording belongs to one stream, whose goroutine alone writes it.
package recording

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Recorder is an observer that records the streams of one handler, and passes everything on to the
// next observer. It needs proxy.Options.ObserveRaw. Of the request, a recording has only the path
// and the form of tool events that it asks for. The files are accessible to their owner only.
type Recorder struct {
	proxy.Observer
	dir    *directory
	max    int64       // bytes that all recordings in the directory may take
	runs   func() bool // whether the configuration runs for good
	logger *zap.Logger
	now    func() time.Time
	failed sync.Once // only the first failure is a warning
}

// Recorder returns a Recorder that records in the directory with the path, and passes everything
// on to next. All recordings in the directory may take max bytes, 0 for the default. runs reports
// whether the configuration runs for good.
func (d *Directories) Recorder(next proxy.Observer, path string, max int64, runs func() bool, logger *zap.Logger) *Recorder {
	return &Recorder{
		Observer: next, dir: d.get(path), max: cmp.Or(max, defaultRecordMax), runs: runs, logger: logger, now: time.Now,
	}
}

// Begin implements proxy.Observer.
func (c *Recorder) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	next := c.Observer.Begin(r, b)
	if !b.Raw {
		return next
	}
	now := c.now().UTC()
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	name := recordingPrefix + now.Format(recordingTime) + "-" + hex.EncodeToString(id[:])
	file, share, err := c.dir.begin(name, c.max, c.runs())
	if err != nil {
		c.fail(err)
		return next
	}
	return &recording{
		AnswerObserver: next, recorder: c, file: file, name: name, left: share,
		meta: Meta{
			Path: bounded.NameEnd(r.URL.Path), Began: now, Status: b.Status,
			ContentType: bounded.Name(b.Header.Get("Content-Type")), Progress: bounded.Name(r.Header.Get(proxy.ProgressHeader)),
		},
	}
}

// fail logs that recording has failed, the first time as a warning.
func (c *Recorder) fail(err error) {
	log := c.logger.Debug
	c.failed.Do(func() { log = c.logger.Warn })
	log("cannot record a stream", zap.String("dir", c.dir.path), zap.Error(err))
}

// recording is a stream that is being recorded. If recording fails, the stream goes on.
type recording struct {
	proxy.AnswerObserver
	recorder *Recorder
	file     *os.File
	name     string
	left     int64 // how many more bytes may be written
	meta     Meta
}

// Raw implements proxy.AnswerObserver. Bytes beyond the share of the recording are left
// out, and its Meta says so.
func (r *recording) Raw(b []byte) {
	if int64(len(b)) > r.left {
		b = b[:r.left]
		r.meta.Truncated = true
	}
	r.left -= int64(len(b))
	if _, err := r.file.Write(b); err != nil {
		r.left = 0
		r.meta.Truncated = true
		r.recorder.fail(err)
	}
}

// End implements proxy.AnswerObserver.
func (r *recording) End(req *http.Request, res proxy.Result) {
	r.meta.Ended, r.meta.Cause, r.meta.Outcome = r.recorder.now().UTC(), CauseName(res.Cause), res.Outcome
	if res.Outcome == proxy.OutcomeClientGone {
		r.meta.Cause = CauseClientGone
	}
	r.meta.UsageReported = res.UsageReported
	meta, err := r.recorder.dir.create(r.name + MetaExtension)
	if err == nil {
		e := json.NewEncoder(meta)
		e.SetIndent("", "  ")
		err = errors.Join(e.Encode(r.meta), meta.Close())
	}
	err = errors.Join(r.file.Close(), err)
	r.recorder.dir.release(r.name)
	if err != nil {
		r.recorder.fail(fmt.Errorf("ending the recording: %w", err))
	}
	r.AnswerObserver.End(req, res)
}
