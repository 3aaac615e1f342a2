package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// announced sets the version that answers have.
var announced = option(func(o *proxy.Options) { o.Announce = "v1.2.3" })

// An answer that is examined says so, once and with this sidecar's version; no other answer changes.
func TestExaminedAnswersSaySo(t *testing.T) {
	const (
		events, jsonType = "text/event-stream", "application/json"
		completion       = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
		failed           = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`
	)
	type c struct {
		path, media, body string
		status            int
		examined          bool
		set               []setting
		fields            []string
	}
	for name, c := range map[string]c{
		"a chat":                      {path: chatPath, media: events, body: role + fullStop + done, examined: true},
		"a response":                  {path: responsesPath, media: events, body: foreign, examined: true},
		"a session":                   {path: sessionPath, media: events, body: foreign, examined: true},
		"a run":                       {path: "/v1/runs/run_1/events", media: events, body: foreign, examined: true},
		"a stream that may be a chat": {path: otherPath, media: events, body: role + fullStop + done, examined: true},
		"an answer":                   {path: chatPath, media: jsonType, body: completion, examined: true},
		"an answer of a session":      {path: "/api/sessions/s1/chat", media: jsonType, body: `{"a":1}`, examined: true},
		"an agent that failed":        {path: chatPath, media: jsonType, body: failed, examined: true},
		"a stream that is empty":      {path: chatPath, media: events, examined: true}, // 502
		"compressed":                  {path: chatPath, media: events, body: role, fields: []string{"Content-Encoding", "gzip"}},
		"another status":              {path: chatPath, media: events, body: role, status: 201},
		"a failure with a status":     {path: chatPath, media: jsonType, body: `{"error":{}}`, status: 502, examined: true},
		"an error of upstream's":      {path: chatPath, media: "text/plain", body: "no", status: 404},
		"HEAD":                        {path: chatPath, media: events, set: []setting{method(http.MethodHead)}},
		"another media type":          {path: chatPath, media: "application/x-ndjson", body: "{}"},
		"no object":                   {path: chatPath, media: jsonType, body: "[1]"},
		"a list of models":            {path: "/v1/models", media: jsonType, body: "{}"},
		"a long answer":               {path: chatPath, media: jsonType, body: completion, fields: []string{"Content-Length", "9999999"}},
		"one that gets long": {path: chatPath, media: jsonType, body: `{"a":"` + strings.Repeat("a", 2000), set: []setting{
			option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 1024 }),
		}},
	} {
		for _, before := range []string{"", "v0.9.0"} {
			bubble(t, name+" "+before, func(t *testing.T) {
				x := begin(t, append(c.set, path(c.path), announced)...)
				fields := slices.Concat(c.fields, []string{"Content-Type", c.media})
				if before != "" {
					fields = append(fields, proxy.SidecarHeader, before)
				}
				x.Head(max(c.status, http.StatusOK), fields...)
				x.Do(func() { _, _ = io.WriteString(x.W, c.body) })
				x.Ret(nil)
				var want []string
				switch {
				case c.examined:
					want = []string{"v1.2.3"}
				case before != "":
					want = []string{before}
				}
				if got := x.Rec.Sent.Values("X-Hermes-Sidecar"); !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
	}
}

// What the sidecar answers instead also says so.
func TestOwnAnswersSaySo(t *testing.T) {
	sent := func(x *exchange) string { return fmt.Sprint(x.Rec.Sent.Values("X-Hermes-Sidecar")) }
	bubble(t, "no connection", func(t *testing.T) {
		x := begin(t, announced, option(func(o *proxy.Options) { o.ErrorStatus = func(error) int { return 502 } }))
		x.Ret(errTest)
		equal(t, sent(x), "[v1.2.3]", "header")
	})
	// A request that looks like a reply and is none is an ordinary one.
	for _, handled := range []bool{true, false} {
		bubble(t, fmt.Sprint("reply ", handled), func(t *testing.T) {
			reply := func(w http.ResponseWriter, _ *http.Request, _ rewrite.Reply, _ rewrite.AnswerForm) (bool, error) {
				if handled {
					w.WriteHeader(http.StatusGone)
				}
				return handled, nil
			}
			x := launch(t, announced, body(`{"stream":true,"messages":[{"role":"user","content":"approve K7QF-2M9D"}]}`),
				option(func(o *proxy.Options) {
					o.Approvals.Reply, o.Approvals.Secrets = reply, func(*http.Request) rewrite.Secrets { return rewrite.Secrets{"K7QF-2M9D": true} }
				}))
			want := "[v1.2.3]"
			if !handled {
				<-x.Ack
				x.Head(http.StatusNotFound)
				want = "[]"
				x.Ret(nil)
			} else {
				x.Over = true
				<-x.Ended
			}
			equal(t, sent(x), want, "header")
		})
	}
}
