package resume

import (
	"bufio"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// OpenAI's SDKs repeat a request whose connection failed, and send the number of repeats in
// RetryHeader. So their requests need no key: a repeat joins the run of the first, also if its
// answer is no event stream. A first request never joins: a user who asks the same again wants
// another answer.

// RetryHeader is how many times an SDK of OpenAI's has sent the same request before.
const RetryHeader = "X-Stainless-Retry-Count"

// Times for a request of an SDK that asks for nothing itself.
const (
	// sdkDetach is how long its run goes on without a client: SDKs repeat within 8 seconds.
	sdkDetach = 10 * time.Second
	// sdkKeep is how long its answer is kept. No repeat of it comes later: a later one may be the
	// repeat of a request that never came here.
	sdkKeep = time.Minute
)

// ofSDK reports whether h is the header of an SDK's request, and whether the SDK has sent the
// request before.
func ofSDK(h http.Header) (sdk, again bool) {
	values := h[RetryHeader]
	if len(values) != 1 {
		return false, false
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	return err == nil, n > 0
}

// sdkKeyOf returns the keyed hash that serves as the key of r, an SDK's request from owner. body is
// the hash of its body. keyOf hashes another number of lists, so no client can send this key.
func sdkKeyOf(secret []byte, owner log.Digest, r *http.Request, body log.Digest) log.Digest {
	fields := [][]string{{string(owner[:]), r.URL.RawQuery}, {RetryHeader, string(body[:])}}
	// The same words in another session are another question.
	for _, name := range []string{"X-Hermes-Session-Id", "X-Hermes-Session-Key", proxy.ProgressHeader} {
		fields = append(fields, r.Header[name])
	}
	return hash(secret, fields)
}

// Sizes of the body of an answer for an SDK. A failure is not kept: an SDK repeats the request to get
// another answer.
const (
	// bodyBuffer is how many bytes of a body are collected for the log. net/http, which decides by
	// the size of its own buffer whether an answer has a length, decides as without a log.
	bodyBuffer = 4 << 10
	// bodyPiece is how many bytes of a body are deleted at once if its log grows too large.
	bodyPiece = 8 << 10
)

// body writes an answer that is no event stream to a log, byte for byte.
type body struct {
	*bufio.Writer
	status  int
	flushed atomic.Bool
}

func newBody(a *answer, status int) *body {
	return &body{Writer: bufio.NewWriterSize(bodyLog{a}, bodyBuffer), status: status}
}

// bodyLog writes pieces of a body to the log of an answer.
type bodyLog struct{ a *answer }

func (b bodyLog) Write(p []byte) (int, error) {
	a := b.a
	a.begin(false)
	var ends []int
	for at := bodyPiece; at < len(p); at += bodyPiece {
		ends = append(ends, at)
	}
	if a.logErr == nil {
		a.logErr = a.log.Append(a.ctx, log.Part{Data: p, Ends: append(ends, len(p))})
	}
	if a.logErr != nil {
		return 0, a.logErr
	}
	return len(p), nil
}
