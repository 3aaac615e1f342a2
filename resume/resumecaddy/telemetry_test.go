package resumecaddy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestLogOfAClientThatLeaves has a warning only if there was no place for its stream, and none if
// nobody wanted that it goes on.
func TestLogOfAClientThatLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		option time.Duration
		asked  string
		want   string
	}{
		"no place":            {time.Minute, "", "warn: too many streams continue without a client; ended one when its client left, see max_detached"},
		"detach 0s":           {0, "", "debug: resumable stream ended"},
		"the client's own 0s": {time.Minute, "0s", "debug: resumable stream ended"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			over := make(chan bool)
			o := resume.DefaultOptions()
			o.Detach, o.MaxDetached = c.option, 0
			o.Ended = func(r *http.Request, e resume.Ended) {
				logEnd(zap.New(core), r, e)
				close(over)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			h := resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: 1\n\n")
				leave()
				<-r.Context().Done()
			}))
			q := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(`{"stream":true}`))
			q.Header.Set(resume.KeyHeader, "k")
			if c.asked != "" {
				q.Header.Set(resume.DetachHeader, c.asked)
			}
			h.ServeHTTP(httptest.NewRecorder(), q)
			<-over
			if all := logs.All(); len(all) != 1 || all[0].Level.String()+": "+all[0].Message != c.want {
				t.Errorf("%v", all)
			}
		})
	}
}
