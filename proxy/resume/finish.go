package resume

import (
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// finish returns the error finish that the log still needs after its run was cancelled
// (contract section 3), in streams of Hermes' that have one. It returns false if
// there is none: then the stream breaks off.
func finish(l Log, r *http.Request, why Reason, now time.Time) ([]byte, bool) {
	cause := rewrite.CauseAborted
	if why == ReasonShutdown {
		cause = rewrite.CauseShutdown
	}
	s := rewrite.New(new(rewrite.Options), rewrite.Params{
		Active:    rewrite.IsChatPath(r.URL.Path),
		Responses: rewrite.IsResponsesPath(r.URL.Path),
		RunID:     rewrite.RunOfPath(r.URL.Path),
		SessionID: rewrite.SessionOfPath(r.URL.Path),
		Progress:  rewrite.ProgressOf(r.Header.Get(proxy.ProgressHeader)),
		ID:        func() string { return "chatcmpl-" + newID() },
		Created:   now.Unix(),
	})
	var room []byte
	if err := l.Each(func(p []byte) { room = s.Feed(room[:0], p, now) }); err != nil || !s.Guarded() {
		return nil, false
	}
	return s.Finish(nil, cause), true
}
