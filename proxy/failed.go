package proxy

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// errorHeader is the header field in which Hermes repeats the message of an error. Like the body, it
// may quote the provider, key and all.
const errorHeader = "X-Hermes-Error"

// failed is an answer of JSON with a status of 400 or more to a request that begins a run (contract
// section 3, "Failures with a status of their own"). It loses its secrets, so its object is kept until it
// is complete. A body that is too large to be examined passes.
type failed struct {
	kept
	length int  // of the whole body, -1 if the header does not say
	other  bool // body is not one object whose own end shows that it is complete
}

// newFailed returns the answer that upstream begins, nil if it passes.
func newFailed(x *exchange) *failed {
	f := &failed{kept: kept{x: x}, length: -1}
	if n, err := strconv.Atoi(x.header.Get("Content-Length")); err == nil {
		f.length = n
	}
	if !head.IsJSON(x.header) || head.IsEncoded(x.header) || x.r.Method == http.MethodHead || f.length > x.o.Rewrite.FrameLimit() {
		return nil
	}
	return f
}

// forbidRepeat asks the client of a failure not to send its request again, unless upstream says what
// to do: SDKs would run the agent three times.
func (x *exchange) forbidRepeat() {
	switch x.client.status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		if h := x.client.w.Header(); len(h[head.Retry]) == 0 && x.r.Method == http.MethodPost {
			h.Set(head.Retry, "false")
		}
	}
}

func (f *failed) write(b []byte) (int, error) {
	f.other = !f.add(b) || f.other
	var err error
	switch complete := !f.other && f.object.complete(); {
	case f.large():
		f.x.forbidRepeat()
		err = f.release()
	case f.length < 0 && complete, len(f.body) == f.length: // upstream may keep the connection open
		err = f.sendClean()
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *failed) flush() error {
	f.flushed = true
	if len(f.body) > 0 || !f.x.client.committed { // the header says how long the body is
		return nil
	}
	return f.send(nil)
}

// sendClean sends the kept answer without its secrets.
func (f *failed) sendClean() error {
	clean := rewrite.RedactError(f.body)
	if h := f.x.client.w.Header(); !f.x.client.committed {
		if !saysNoRun(f.body) {
			f.x.forbidRepeat()
		}
		if !bytes.Equal(clean, f.body) {
			head.DropOfBody(h)
			if f.length >= 0 {
				h.Set("Content-Length", strconv.Itoa(f.length+len(clean)-len(f.body)))
			}
		}
		f.x.o.announce(h)
	}
	f.body, f.object = nil, objectEnd{}
	return f.send(clean)
}

func (f *failed) cut(rewrite.Cause) { _ = f.sendClean() } // an error shows in f.x.client.err

func (f *failed) end(cause rewrite.Cause) bool {
	f.cut(cause)
	return false
}

func (*failed) report(*Result) bool { return false }

// redactHeader takes the secrets out of what the header h of an answer, or its trailers, say of an
// error. It does not write to the values of h.
func (q *Request) redactHeader(h http.Header) {
	if !rewrite.BeginsRun(q.r.URL.Path) {
		return
	}
	for _, name := range []string{errorHeader, http.TrailerPrefix + errorHeader} {
		var clean []string
		for _, text := range h[name] {
			clean = append(clean, rewrite.Redact(text))
		}
		if clean != nil {
			h[name] = clean
		}
	}
}
