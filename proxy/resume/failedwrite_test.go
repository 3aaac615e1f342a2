package resume_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// takesNothing is the writer of a client that has left. It keeps what it was last given.
type takesNothing struct {
	http.ResponseWriter
	kept []byte
}

func (w *takesNothing) Write(p []byte) (int, error) {
	w.kept = p
	return 0, errors.New("the client has left")
}

// TestBytesOfAFailedWriteStay: an HTTP/2 server may still be sending what it has said it
// could not write (net/http: h2_bundle.go:5149), while the run goes on.
func TestBytesOfAFailedWriteStay(t *testing.T) {
	for range 20 { // a pool may drop what it is given
		runs := new(resume.Runs)
		o := resume.DefaultOptions()
		o.Runs = runs
		r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking))
		r.Header.Set(key, "k")
		w := &takesNothing{ResponseWriter: httptest.NewRecorder()}
		_ = resume.New(o).Serve(w, r, streams(events(5), always()))
		until(t, "the run ends", func() bool { return runs.Open() == 0 })
		if got := string(w.kept); !strings.HasPrefix(got, "data: 1\n") {
			t.Fatalf("what the client was given has become %q", got)
		}
	}
}
