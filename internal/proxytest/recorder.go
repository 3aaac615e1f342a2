package proxytest

import (
	"bytes"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// A Recorder is the inner writer. Like Caddy's it has no lock of its own, so that
// the race detector sees who does not hold ours, and no Flush but FlushError.
type Recorder struct {
	T        *testing.T
	Fields   http.Header
	Log      []string // what was called
	Sent     http.Header
	Informed http.Header // of the last informational answer
	Status   int
	Body     bytes.Buffer
	OnWrite  func(b []byte) (int, error) // in place of taking b
	OnFlush  func() error
	sealed   atomic.Bool         // nothing may be called any more
	Looks    int                 // how many times the header was looked at
	Wrapped  http.ResponseWriter // what the guard has in its stead, nil for none
}

// NewRecorder returns a Recorder with an empty header.
func NewRecorder(t *testing.T) *Recorder { return &Recorder{T: t, Fields: make(http.Header)} }

func (rec *Recorder) called(format string, args ...any) {
	Moved()
	call := fmt.Sprintf(format, args...)
	if rec.sealed.Load() {
		rec.T.Errorf("the writer was touched after the guard: %s", call)
	}
	rec.Log = append(rec.Log, call)
	for range rec.Fields { // as net/http does over HTTP/2, for trailers
		rec.Looks++
	}
}

// Header notes, as net/http's over HTTP/1.1, that it was called.
func (rec *Recorder) Header() http.Header {
	Moved()
	rec.Looks++
	return rec.Fields
}

// WriteHeader implements http.ResponseWriter.
func (rec *Recorder) WriteHeader(status int) {
	rec.called("header %d", status)
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if rec.Status != 0 {
			rec.T.Errorf("WriteHeader(%d) after WriteHeader(%d)", status, rec.Status)
		}
		rec.Status, rec.Sent = status, rec.Fields.Clone()
	} else {
		rec.Informed = rec.Fields.Clone()
	}
}

// Write implements http.ResponseWriter.
func (rec *Recorder) Write(b []byte) (int, error) {
	if rec.Status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	rec.called("write %s", b)
	if rec.OnWrite != nil {
		if n, err := rec.OnWrite(b); err != nil {
			rec.Body.Write(b[:n])
			return n, err
		}
	}
	return rec.Body.Write(b)
}

// FlushError is what an http.ResponseController calls.
func (rec *Recorder) FlushError() error {
	rec.called("flush")
	if rec.OnFlush != nil {
		return rec.OnFlush()
	}
	return nil
}
