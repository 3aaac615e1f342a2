package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// calledStream returns an exchange for chat completions whose next handler has answered with the body, called an event
// stream, in reads of size bytes.
func calledStream(t *testing.T, body string, size int, settings ...setting) *exchange {
	t.Helper()
	x := begin(t, settings...)
	x.Stream("Content-Length", fmt.Sprint(len(body)), "Etag", `"1"`)
	for rest := body; rest != ""; {
		n := min(size, len(rest))
		x.Write(rest[:n])
		rest = rest[n:]
	}
	return x
}

// A body that is called an event stream and is none passes as what it is (contract section 0), however it was cut.
func TestBodiesThatAreCalledStreams(t *testing.T) {
	const json, sse = "application/json", "text/event-stream"
	large := strings.Repeat("x ", 1<<19)
	for name, c := range map[string]struct{ body, want, media string }{
		"an error":             {`{"error":{"message":"no key","type":"auth"}}`, "", json},
		"with a line end":      {`{"error":{"message":"no key","type":"auth"}}` + "\n", "", json},
		"with a blank line":    {`{"error":{"message":"no key","type":"auth"}}` + "\n\n", "", json},
		"over several lines":   {"{\r\n  \"error\": {\r\n    \"data\": \"no key\"\r\n  }\r\n}\r\n\r\n", "", json},
		"white space in front": {" \n\n\t{\"error\": 1}", "", json},
		"a byte order mark":    {"\ufeff{\"error\": \"no key\"}", "", json},
		"an answer":            {completion("Hello", someTokens), "", json},
		"an answer to repair":  {completion("<think>a</think>b", someTokens), strings.Replace(completion("b", someTokens), `"content": "b"`, `"content": "b","reasoning_content":"a"`, 1), json},
		"an array":             {`[{"error": {"code": 400}}]`, "", json},
		"a string":             {`"no key"`, "", json},
		"NaN":                  {`{"detail": "no key", "score": NaN}`, "", json},
		"a secret":             {`{"error":{"message":"bad key sk-abcdEFGH1234567890"}}`, `{"error":{"message":"bad key [redacted]"}}`, json},
		"a secret and a mark":  {"\ufeff" + `{"error":{"message":"bad key sk-abcdEFGH1234567890"}}`, "\ufeff" + `{"error":{"message":"bad key [redacted]"}}`, json},
		"text":                 {"Internal Server Error", "", sse},
		"a line of text":       {"upstream: no key\n", "", sse},
		"lines like fields":    {"identity unknown\ndatabase: away\n", "", sse},
		"a page":               {"<html>\n<body>\n\n<h1>502 Bad Gateway</h1>\n</body></html>\n", "", sse},
		"JSON lines":           {`{"a": 1}` + "\n" + `{"a": 2}` + "\n", "", sse},
		"a secret in a text":   {"bad key sk-abcdEFGH1234567890\n", "bad key [redacted]\n", sse},
		"a large text":         {large + "\n", "", sse},
		"JSON that is large":   {`{"error": "` + large + `"}`, "", sse},
	} {
		for _, size := range []int{1 << 22, 7, 1} {
			if size == 1 && len(c.body) > 1<<16 {
				continue
			}
			x := calledStream(t, c.body, size, option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 512 << 10 }))
			x.Ret(nil).WantSwallowed(t)
			if c.want == "" {
				c.want = c.body
			}
			equal(t, x.Rec.Body.String() == c.want, true, fmt.Sprintf("%s in reads of %d: %.300q", name, size, x.Rec.Body.String()))
			equal(t, x.Rec.Status, 200, name+": the status")
			h := x.Rec.Sent
			equal(t, h.Get("Content-Type"), c.media, name+": the media type")
			if n := h.Get("Content-Length"); n != "" && n != fmt.Sprint(len(c.want)) || h.Get("X-Accel-Buffering") != "" || c.want == c.body && h.Get("Etag") == "" {
				t.Errorf("%s: the header was %v", name, h)
			}
		}
	}
	x := calledStream(t, completion("", zeroTokens), 100)
	x.Ret(nil).WantSwallowed(t)
	equal(t, x.Rec.Status, 502, "the status of an agent that failed")
	equal(t, strings.Contains(x.Rec.Body.String(), `"code":"agent_incomplete"`), true, "the body")
}

// What becomes an event stream is one, whatever comes first.
func TestStreamsThatBeginOddly(t *testing.T) {
	for _, before := range []string{"", "\ufeff", "\n\r\n", ": hello\n", "x: y\n", "{\n", "retry: 5\n\n", "id\n", "event: message\n"} {
		in := before + role + text("Hello") + fullStop + done
		for _, size := range []int{1 << 20, 1} {
			x := calledStream(t, in, size)
			x.Ret(nil).WantSwallowed(t)
			equal(t, x.Rec.Body.String(), in, fmt.Sprintf("%q", before))
			equal(t, x.Rec.Sent.Get("X-Accel-Buffering"), "no", "the header of a stream")
		}
	}
	// What is cut, or nothing, is none.
	for body, cause := range map[string]bool{"": true, "da": true, "data: {\"a\"": true, "\n\n": true, "\ufeff": true, `{"error": {"mess`: false, "Internal": false} {
		x := calledStream(t, body, 1<<20)
		if cause {
			x.Ret(nil).WantSwallowed(t)
		} else {
			x.Abort().WantSwallowed(t)
		}
		equal(t, strings.Contains(x.Rec.Body.String(), `"code":"upstream_`), true, fmt.Sprintf("%q: the body", body))
		if body != "\n\n" {
			equal(t, x.Rec.Status, 502, fmt.Sprintf("%q: the status", body))
		}
	}
}

// A keepalive does not become part of a body, and a timeout ends one that does not go on.
func TestBodyThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = `{"error": {"message": "no key"}}`
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive, o.IdleTimeout = time.Second, time.Minute }))
		x.Stream()
		x.Write(body[:9])
		advance(10 * time.Second)
		x.Write(body[9:])
		x.Ret(nil).WantSwallowed(t)
		equal(t, x.Rec.Body.String(), body, "the body")
	})
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive, o.IdleTimeout = time.Second, time.Minute }))
		x.Stream()
		x.Write(`{"error"`)
		advance(2 * time.Minute)
		equal(t, x.Rec.Status, 504, "the status")
		equal(t, strings.Contains(x.Rec.Body.String(), rewrite.CodeTimeout), true, "the body")
		x.Ret(nil)
	})
}
