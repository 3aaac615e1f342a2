package resume_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// failingStore has no logs.
type failingStore struct{ resume.Store }

func (failingStore) Claim(context.Context, resume.Entry, resume.Run) (resume.Log, resume.Writer, error) {
	return nil, nil, errors.New("no")
}

func (failingStore) Find(context.Context, string) (resume.Log, error) { return nil, errors.New("no") }

// TestStoreThatFails lets requests pass as if they had not asked. Whoever asks for a stream
// is told to come again.
func TestStoreThatFails(t *testing.T) {
	l := newLab(t, func(o *resume.Options) { o.Store = failingStore{resume.NewMemory()} }, streams(events(2), always()))
	if r := l.send(post(key, "k")).want(http.StatusOK); r.id() != "" || r.rest() != event(1)+event(2) {
		t.Error("not as without")
	}
	l.send(post("Last-Event-ID", "stream_"+strings.Repeat("A", 22)+"/1")).want(http.StatusServiceUnavailable)
}

// panicking is a writer that panics.
type panicking struct{ http.ResponseWriter }

func (panicking) WriteHeader(int) { panic("boom") }

// TestWriterThatPanics leaves no reader behind: the run goes on as without a client, and
// ends.
func TestWriterThatPanics(t *testing.T) {
	runs := new(resume.Runs)
	o := resume.DefaultOptions()
	o.Runs = runs
	r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking))
	r.Header.Set(key, "k")
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("panic %v", v)
			}
		}()
		_ = resume.New(o).Serve(panicking{httptest.NewRecorder()}, r, streams(events(3), always()))
	}()
	until(t, "the run ends", func() bool { return runs.Open() == 0 })
	if st := runs.Stats(); st.Readers != 0 || st.Detached != 0 {
		t.Errorf("stats %+v", st)
	}
}
