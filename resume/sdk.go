package resume

import (
	"bufio"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// OpenAI's SDKs repeat a request whose connection failed, and count in RetryHeader how often they
// have. So their requests need no key: a repeat joins the run of the first, also if its answer is
// no event stream. A first request never joins: who asks the same again wants another answer.

// RetryHeader is how many times an SDK of OpenAI's has sent the same request before.
const RetryHeader = "X-Stainless-Retry-Count"

// What a request of an SDK gets that asks for nothing else.
const (
	// sdkDetach is how long its run goes on without a client: SDKs repeat within 8 seconds.
	sdkDetach = 10 * time.Second
	// sdkKeep is how long its answer is kept. No repeat comes as late: a later request that is
	// marked may be the repeat of one that never came here.
	sdkKeep = time.Minute
)

// ofSDK reports whether a header is that of an SDK's request, and whether the SDK has sent
// that before.
func ofSDK(h http.Header) (sdk, again bool) {
	values := h[RetryHeader]
	if len(values) != 1 {
		return false, false
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	return err == nil, n > 0
}

// sdkKeyOf returns the keyed hash that stands for the key of r, an SDK's request of the owner's with
// a hash of its body. keyOf hashes another number of lists, so no client can send it.
func sdkKeyOf(secret []byte, owner Digest, r *http.Request, body Digest) Digest {
	fields := [][]string{{string(owner[:]), r.URL.RawQuery}, {RetryHeader, string(body[:])}}
	// The same words in another session are another question.
	for _, name := range []string{"X-Hermes-Session-Id", "X-Hermes-Session-Key", proxy.ProgressHeader} {
		fields = append(fields, r.Header[name])
	}
	return hash(secret, fields)
}

// isBody reports whether an answer that is no event stream is kept. An SDK repeats what has
// failed in order to get another answer.
func (x *run) isBody(status int) bool { return x.sdk && status >= 200 && status < 300 }

const (
	// bodyBuffer is how many bytes of a body the log may wait for. net/http, which decides by its
	// own buffer whether an answer has a length, sees the first client's as without a log.
	bodyBuffer = 4 << 10
	// bodyPiece is how many bytes of a body go at once if its log grows too large.
	bodyPiece = 8 << 10
)

// newBody returns a writer of an answer that is no event stream, to the log of x.
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
		x.logErr = x.log.Append(x.ctx, Part{Data: p, Ends: append(ends, len(p))})
	}
	if x.logErr != nil {
		return 0, x.logErr
	}
	return len(p), nil
}
