package resume

import (
	"bufio"
	"net/http"
	"strconv"
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

// isBody reports whether an answer with status that is no event stream is kept. A failure is not:
// an SDK repeats the request to get another answer.
func (x *run) isBody(status int) bool { return x.sdk && status >= 200 && status < 300 }

const (
	// bodyBuffer is how many bytes of a body are collected for the log. net/http, which decides by
	// the size of its own buffer whether an answer has a length, decides as without a log.
	bodyBuffer = 4 << 10
	// bodyPiece is how many bytes of a body are deleted at once if its log grows too large.
	bodyPiece = 8 << 10
)

// newBody returns a writer to the log of x, for an answer that is no event stream.
func newBody(x *run) *bufio.Writer { return bufio.NewWriterSize(bodyLog{x}, bodyBuffer) }

// bodyLog writes a body to the log of a run, byte for byte.
type bodyLog struct{ x *run }

func (b bodyLog) Write(p []byte) (int, error) {
	x := b.x
	x.begin()
	var ends []int
	for at := bodyPiece; at < len(p); at += bodyPiece {
		ends = append(ends, at)
	}
	if x.logErr == nil {
		x.logErr = x.log.Append(x.ctx, log.Part{Data: p, Ends: append(ends, len(p))})
	}
	if x.logErr != nil {
		return 0, x.logErr
	}
	return len(p), nil
}
