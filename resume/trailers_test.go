package resume_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// trailing is a next handler whose stream has trailers: one that it announces, one that it
// does not, and one that it has from the beginning.
func trailing(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Trailer", "X-A")
	h.Set(http.TrailerPrefix+"X-Early", "3")
	_, _ = io.WriteString(w, event(1))
	_ = http.NewResponseController(w).Flush()
	h.Set("X-A", "1")
	h.Set("X-Other", "no trailer")
	h.Set(http.TrailerPrefix+"X-B", "2")
	return nil
}

// TestTrailersAreForTheFirstClient as they would be without resume. Who comes later gets
// the events, and no trailers.
func TestTrailersAreForTheFirstClient(t *testing.T) {
	l := newLab(t, nil, trailing)
	plain := l.send(post()).want(http.StatusOK)
	plain.rest()
	first := l.send(post(key, "k")).want(http.StatusOK)
	if got := first.rest(); got != numbered(first.id(), 1, event(1)) {
		t.Errorf("%q", got)
	}
	if want := (http.Header{"X-A": {"1"}, "X-B": {"2"}, "X-Early": {"3"}}); !reflect.DeepEqual(first.Trailer, want) || !reflect.DeepEqual(plain.Trailer, want) {
		t.Errorf("trailers %v, without resume %v, want %v", first.Trailer, plain.Trailer, want)
	}
	again := l.send(post(key, "k")).want(http.StatusOK)
	if got := again.rest(); got != numbered(first.id(), 1, event(1)) || len(again.Trailer) > 0 {
		t.Errorf("%q, trailers %v", got, again.Trailer)
	}
}

// plainWriter can do nothing but what every http.ResponseWriter can.
type plainWriter struct{ rec *httptest.ResponseRecorder }

func (w plainWriter) Header() http.Header         { return w.rec.Header() }
func (w plainWriter) WriteHeader(status int)      { w.rec.WriteHeader(status) }
func (w plainWriter) Write(p []byte) (int, error) { return w.rec.Write(p) }

// TestWriterThatCannotFlush gets all, as without resume; so does one that comes later.
func TestWriterThatCannotFlush(t *testing.T) {
	p := resume.New(resume.DefaultOptions())
	id := ""
	for i, calls := range []int{1, 0} {
		called := 0
		r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking))
		r.Header.Set(key, "k")
		w := plainWriter{httptest.NewRecorder()}
		err := p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			called++
			return streams(events(3), always())(w, r)
		})
		if id == "" {
			id = w.rec.Header().Get(resume.StreamHeader)
		}
		if got := w.rec.Body.String(); err != nil || called != calls || id == "" || got != numbered(id, 1, events(3)...) {
			t.Errorf("%d: %v, next was called %d times, %q", i, err, called, got)
		}
	}
}
