package proxy

import (
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// requestBody is what becomes of the body of a request.
type requestBody struct {
	given  io.ReadCloser // what the next handler's request begins with
	length int64         // and its ContentLength
	held   *heldBody     // as far as it has been read; nil for not at all
	upload *upload       // what is still to be read; nil for nothing that counts
}

// heal reads the body of the client's request, and gives it to up, which is
// what the next handler gets, without the markers of its history (contract
// section 5). It tells what the body asks for. A body that is not read, or not
// to its end, goes on as it comes.
func (rw *responseWriter) heal(up *http.Request) rewrite.Asked {
	asked := rewrite.AskedUnknown
	if rw.p.reads(rw.r) {
		asked = rw.hold(up)
	}
	if rw.sent.held == nil || rw.sent.held.err == nil {
		rw.follow(up)
	}
	rw.sent.given, rw.sent.length = up.Body, up.ContentLength
	return asked
}

// hold reads the body, and heals it if it has come whole.
func (rw *responseWriter) hold(up *http.Request) rewrite.Asked {
	p, r := rw.p, rw.r
	client := r.Body
	came, err := readBody(client, r.ContentLength, p.o.MaxRequest)
	held := &heldBody{client: client, err: err}
	rw.sent.held = held
	held.theirs = &heldReader{of: held, b: came}
	held.ours = held.theirs
	r.Body, up.Body = held.ours, held.theirs
	// A last read may bring the end along with one byte too many.
	whole := err == io.EOF && int64(len(came)) <= p.o.MaxRequest //nolint:errorlint // the end is that very value
	if !whole || r.ContentLength >= 0 && r.ContentLength != int64(len(came)) {
		return rewrite.AskedUnknown
	}
	b, healed := rewrite.Heal(came, p.o.Rewrite.Tools)
	held.came = came
	held.theirs = &heldReader{of: held, b: b}
	up.Body = held.theirs
	if healed.Markers > 0 {
		fitHeader(up, len(b))
		if p.o.OnHeal != nil {
			p.o.OnHeal(r, healed.Markers)
		}
	}
	return healed.Asked
}

// giveBack gives the client's request the body that it would have behind the
// next handler without us: whoever handles an error of that sends it elsewhere.
// What is wrapped around the body stays around it (a limit of Caddy's
// request_body), what has been read is not read again, and what has not, because
// upstream could not be reached, is there as it came. net/http looks at the request
// when it writes the header, which a timer may do now.
func (rw *responseWriter) giveBack(up *http.Request) {
	rw.mu.Lock()
	defer rw.unlock()
	r, s := rw.r, &rw.sent
	wrapped := !same(up.Body, s.given)
	if wrapped && up.ContentLength != s.length {
		r.ContentLength = up.ContentLength
	}
	if wrapped || s.held != nil && s.held.spent() {
		r.Body = up.Body
	}
	if wrapped && s.held != nil {
		s.held.unheal()
	}
}

// decide drops what is needed only until the answer is decided.
func (s *requestBody) decide() {
	if s.held != nil {
		s.held.decide()
	}
}

// same tells whether two bodies are the same. Those that cannot be compared are
// not.
func same(a, b io.ReadCloser) bool { return reflect.ValueOf(a).Comparable() && a == b }

// fitHeader fits the header of a request to a body that has changed and is n
// bytes long. A body that came without a length leaves without one.
func fitHeader(up *http.Request, n int) {
	if up.ContentLength >= 0 {
		up.ContentLength = int64(n)
		if up.Header.Get("Content-Length") != "" {
			up.Header.Set("Content-Length", strconv.Itoa(n))
		}
	}
	for _, name := range []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		up.Header.Del(name)
	}
}

// reads tells whether the body of r may be a request with a history, and may be
// read before it goes on.
func (p *Proxy) reads(r *http.Request) bool {
	if p.o.History == HistoryKeep || r.Method != http.MethodPost {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || r.ContentLength > p.o.MaxRequest {
		return false
	}
	if isEncoded(r.Header) {
		return false
	}
	// The client says that the body is to go on while it comes (the HTTP
	// working group's draft "Incremental HTTP Messages"; Caddy heeds it too).
	if strings.HasPrefix(r.Header.Get("Incremental"), "?1") {
		return false
	}
	media := mediaType(r.Header)
	if isChat(r) {
		return !strings.HasPrefix(media, "multipart/")
	}
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
