package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// What Hermes 0.18 and newer answers if a turn failed that is not streamed, and if it crashed, as the
// client gets it. The provider's message has its key in it.
const (
	providerKey = "sk-abcdefghijklmnopqrstuvwxyz123456"
	incomplete  = `{"error": {"message": "Error code: 401 - Incorrect API key provided: ` + providerKey + `", "type": "server_error", "param": null, "code": "agent_incomplete", "hermes": {"completed": false, "partial": false, "failed": true}}}`
	crashed     = `{"error": {"message": "Internal server error: Incorrect API key provided: ` + providerKey + `", "type": "server_error", "param": null, "code": null}}`
)

// withoutKey returns s as a client gets it.
func withoutKey(s string) string { return strings.ReplaceAll(s, providerKey, "[redacted]") }

// answerFailed has the next handler answer with the status, the media type, the fields and the header
// of a body that is length bytes long, or does not say that.
func (x *exchange) answerFailed(status int, media string, length int, fields ...string) {
	x.T.Helper()
	if length >= 0 {
		fields = append(fields, "Content-Length", fmt.Sprint(length))
	}
	x.Head(status, append(fields, "Content-Type", media)...)
}

// TestFailuresLoseTheirSecrets on each path that begins a run, however their body comes, and no client
// is invited to send its request again.
func TestFailuresLoseTheirSecrets(t *testing.T) {
	for _, p := range []string{"/v1/chat/completions", "/v1/responses", "/v1/runs", "/api/sessions/s1/chat", "/api/sessions/s1/chat/stream"} {
		for _, p := range []string{p, "/p/coder" + p} {
			for body, status := range map[string]int{incomplete: 502, crashed: 500} {
				for _, length := range []int{-1, len(body)} {
					t.Run(fmt.Sprint(p, status, length), func(t *testing.T) {
						x := begin(t, path(p))
						x.answerFailed(status, "application/json; charset=utf-8", length, "X-Hermes-Completed", "false", "Etag", `"1"`,
							"X-Hermes-Error", "Incorrect API key provided: "+providerKey)
						x.Flush()
						x.Write(body[:70], body[70:100])
						x.Flush()
						x.WantLog()
						x.Write(body[100:])
						x.Flush()
						x.Ret(nil).WantSwallowed(t)
						equal(t, x.Rec.Log[len(x.Rec.Log)-1], "flush", "the last call")
						equal(t, x.Rec.Status, status, "status")
						x.WantBody(withoutKey(body))
						wantLength := ""
						if length >= 0 {
							wantLength = fmt.Sprint(x.Rec.Body.Len())
						}
						for name, want := range map[string]string{
							"X-Hermes-Error": "Incorrect API key provided: [redacted]", "X-Should-Retry": "false", "X-Hermes-Completed": "false",
							"Content-Type": "application/json; charset=utf-8", "Content-Length": wantLength, "Etag": "",
						} {
							equal(t, x.Rec.Sent.Get(name), want, name)
						}
						if len(x.Ends) > 0 {
							t.Errorf("the observer observed %+v", x.Ends)
						}
					})
				}
			}
		}
	}
}

// TestFailuresThatPass keep their bytes; of the header, only what repeats the error and what asks for
// the request again are ours.
func TestFailuresThatPass(t *testing.T) {
	const plain = `{"error": {"message": "Missing or invalid 'messages' field", "param": "api_key"}}`
	small := option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 64 })
	for name, c := range map[string]struct {
		settings        []setting
		status          int
		media, encoding string
		retry           string // upstream's, or if it begins with ! that of the sidecar
		body, want      string // body if empty
	}{
		"the request's fault":      {status: 400, body: incomplete, want: withoutKey(incomplete)},
		"no key":                   {status: 401, body: incomplete, want: withoutKey(incomplete)},
		"another's 429":            {status: 429, body: incomplete, want: withoutKey(incomplete)},
		"overloaded":               {status: 503, body: incomplete, want: withoutKey(incomplete)},
		"a timeout":                {status: 504, retry: "!false", body: incomplete, want: withoutKey(incomplete)},
		"upstream says what to do": {status: 502, retry: "true", body: incomplete, want: withoutKey(incomplete)},
		"problem":                  {status: 500, retry: "!false", media: "application/problem+json", body: crashed, want: withoutKey(crashed)},
		"cut":                      {status: 502, retry: "!false", body: incomplete[:150], want: withoutKey(incomplete[:150])},
		"cut in the key":           {status: 502, retry: "!false", body: incomplete[:80], want: `{"error": {"message": "Error code: 401 - Incorrect API key provided: [redacted]`},
		"NaN":                      {status: 502, retry: "!false", body: `{"a": NaN, "b": "` + providerKey + `"}`, want: `{"a": NaN, "b": "[redacted]"}`},
		"an array":                 {status: 500, retry: "!false", body: "[" + crashed + "]", want: "[" + withoutKey(crashed) + "]"},
		"a string":                 {status: 500, retry: "!false", body: ` "` + providerKey + `"`, want: ` "[redacted]"`},
		"no JSON":                  {status: 500, retry: "!false", body: "Error: " + providerKey, want: "Error: [redacted]"},
		"two objects":              {status: 500, retry: "!false", body: crashed + crashed, want: withoutKey(crashed + crashed)},
		"nothing":                  {status: 500, retry: "!false"},
		"nothing to redact":        {status: 400, body: plain},
		"a status of ours":         {status: 502, body: `{"error":{"message":"the agent could not be reached","type":"upstream_error","param":null,"code":"upstream_aborted"}}` + "\n"},
		"compressed":               {status: 502, retry: "!false", encoding: "gzip", body: incomplete},
		"HEAD":                     {status: 502, settings: []setting{method(http.MethodHead)}},
		"GET":                      {status: 502, settings: []setting{method(http.MethodGet)}, body: incomplete, want: withoutKey(incomplete)},
		"another media type":       {status: 502, retry: "!false", media: "text/html", body: incomplete},
		"too large":                {status: 502, retry: "!false", settings: []setting{small}, body: incomplete},
		"another path":             {status: 502, settings: []setting{path("/v1/models")}, body: incomplete},
		"a response is read":       {status: 502, settings: []setting{path("/v1/responses/resp_1"), method(http.MethodGet)}, body: incomplete},
		"not failed":               {status: 302, body: incomplete},
	} {
		want := c.want
		if want == "" {
			want = c.body
		}
		if c.media == "" {
			c.media = "application/json"
		}
		for _, length := range []int{-1, len(c.body)} {
			t.Run(fmt.Sprint(name, length), func(t *testing.T) {
				x := begin(t, c.settings...)
				fields := []string{"Content-Encoding", c.encoding, "Etag", `"1"`}
				if !strings.HasPrefix(c.retry, "!") && c.retry != "" {
					fields = append(fields, "X-Should-Retry", c.retry)
				}
				x.answerFailed(c.status, c.media, length, fields...)
				x.Write(c.body[:len(c.body)/2], c.body[len(c.body)/2:])
				x.Ret(nil).WantSwallowed(t)
				x.WantBody(want)
				h := x.Rec.Sent
				equal(t, h.Get("X-Should-Retry"), strings.TrimPrefix(c.retry, "!"), "X-Should-Retry")
				equal(t, h.Get("Etag") != "", want == c.body, "Etag stays")
				if length >= 0 {
					equal(t, h.Get("Content-Length"), fmt.Sprint(len(want)), "Content-Length")
				}
			})
		}
	}
}

// TestFailureLeavesWhenItIsComplete: its client does not wait for the end of the connection, and what
// comes after it also loses its secrets. One that breaks off also breaks off for the client.
func TestFailureLeavesWhenItIsComplete(t *testing.T) {
	for _, length := range []int{-1, len(incomplete)} {
		x := begin(t)
		x.answerFailed(502, "application/json", length)
		x.Write(incomplete)
		x.Flush()
		x.WantLog("header 502", "write "+withoutKey(incomplete), "flush")
		if length < 0 {
			x.Write("\n" + crashed)
		}
		x.Ret(nil).WantSwallowed(t)
		if want := withoutKey(incomplete); length < 0 {
			x.WantBody(want + "\n" + withoutKey(crashed))
		}
	}
	x := begin(t)
	x.answerFailed(502, "application/json", len(incomplete))
	x.Write(incomplete[:150])
	x.Abort().Want(t, "abort")
	x.WantBody(withoutKey(incomplete[:150]))
	equal(t, x.Rec.Sent.Get("Content-Length"), fmt.Sprint(len(withoutKey(incomplete))), "Content-Length")
}

// TestErrorHeaderLosesItsSecrets wherever it stands: in front of any answer to a request that begins a
// run, in informational answers and in trailers. Elsewhere it passes.
func TestErrorHeaderLosesItsSecrets(t *testing.T) {
	const said, clean = "key " + providerKey, "key [redacted]"
	for p, want := range map[string]string{"/v1/chat/completions": clean, "/v1/responses": clean, "/v1/runs": clean, "/api/sessions/s1/chat/stream": clean, "/v1/models": said} {
		for _, media := range []string{"text/event-stream", "application/json", "text/plain"} {
			for _, trailer := range []string{"X-Hermes-Error", http.TrailerPrefix + "X-Hermes-Error"} {
				x := begin(t, path(p))
				x.Head(http.StatusEarlyHints, "X-Hermes-Error", said)
				informed := x.Rec.Informed
				x.Head(http.StatusOK, "Content-Type", media, "Trailer", "X-Hermes-Error")
				x.Write(role + stop + done)
				x.Do(func() { x.W.Header().Set(trailer, said) })
				x.Ret(nil).WantSwallowed(t)
				what := fmt.Sprint(p, " ", media, " ", trailer)
				equal(t, informed.Get("X-Hermes-Error"), want, "in 103: "+what)
				equal(t, x.Rec.Sent.Get("X-Hermes-Error"), want, "in the header: "+what)
				equal(t, x.Rec.Fields.Get(trailer), want, "in the trailer: "+what)
			}
		}
	}
}

// TestFailuresDoNotDependOnReads: each cut of what upstream sends gives the same answer.
func TestFailuresDoNotDependOnReads(t *testing.T) {
	for _, body := range []string{incomplete + "\n", crashed, incomplete[:150], "[" + crashed + "]", crashed + crashed} {
		for i := range body {
			x := begin(t)
			x.answerFailed(502, "application/json", -1)
			x.Write(body[:i], body[i:])
			x.Ret(nil).WantSwallowed(t)
			if got := x.Rec.Body.String(); got != withoutKey(body) || x.Rec.Sent.Get("X-Should-Retry") != "false" {
				t.Fatalf("cut at %d: %s, header %v", i, got, x.Rec.Sent)
			}
		}
	}
}
