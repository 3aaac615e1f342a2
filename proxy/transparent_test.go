package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// everything sets all that looks at a clock.
func everything(o *proxy.Options) {
	o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout = time.Second, time.Second, time.Second
	o.Keepalive, o.DoneGrace, o.DrainTimeout = time.Second, time.Second, time.Second
}

func TestAnswersThatAreNoStreamPassByteForByte(t *testing.T) {
	const body = "data: {\"object\":\"chat.completion.chunk\"" // a stream's would be held back
	for name, c := range map[string]struct {
		status int
		fields []string
		method string
	}{
		"JSON":                  {status: 200, fields: []string{"Content-Type", "application/json"}},
		"no media type":         {status: 200},
		"a malformed type":      {status: 200, fields: []string{"Content-Type", "text/event-stream/x"}},
		"a longer media type":   {status: 200, fields: []string{"Content-Type", "text/event-streams"}},
		"text/plain":            {status: 200, fields: []string{"Content-Type", "text/plain"}},
		"201":                   {status: 201, fields: []string{"Content-Type", "text/event-stream"}},
		"206":                   {status: 206, fields: []string{"Content-Type", "text/event-stream"}},
		"401":                   {status: 401, fields: []string{"Content-Type", "text/event-stream"}},
		"500":                   {status: 500, fields: []string{"Content-Type", "text/event-stream"}},
		"gzip":                  {status: 200, fields: []string{"Content-Type", "text/event-stream", "Content-Encoding", "gzip"}},
		"br":                    {status: 200, fields: []string{"Content-Type", "text/event-stream", "Content-Encoding", "br"}},
		"HEAD of a stream":      {status: 200, fields: []string{"Content-Type", "text/event-stream"}, method: http.MethodHead},
		"an error with a cause": {status: 502, fields: []string{"Content-Type", "application/json"}},
	} {
		bubble(t, name, func(t *testing.T) {
			settings := []setting{option(everything)}
			if c.method != "" {
				settings = append(settings, method(c.method))
			}
			x := begin(t, settings...)
			fields := append([]string{"Content-Length", "1000", "Etag", `"1"`, "Last-Modified", "x"}, c.fields...)
			want := make(http.Header)
			x.do(func() {
				for i := 0; i < len(fields); i += 2 {
					x.w.Header().Set(fields[i], fields[i+1])
					want.Set(fields[i], fields[i+1])
				}
				x.w.WriteHeader(c.status)
			})
			x.write(body[:7])
			advance(time.Hour) // no deadline is ours
			x.flush()
			x.write(body[7:])
			x.flush()
			x.ret(nil).wantSwallowed(t)
			x.wantLog(fmt.Sprintf("header %d", c.status), "write "+body[:7], "flush", "write "+body[7:], "flush")
			if fmt.Sprint(x.rec.sent) != fmt.Sprint(want) {
				t.Errorf("the header was\n%v, want\n%v", x.rec.sent, want)
			}
			if name == "gzip" || name == "br" {
				if len(x.ends) != 1 || x.ends[0].Outcome != proxy.OutcomeEncoded {
					t.Errorf("the observer was told %+v, want that the stream was compressed", x.ends)
				}
			} else if len(x.ends) > 0 {
				t.Errorf("the observer was told of it: %+v", x.ends)
			}
		})
	}
}

func TestMediaTypesOfAStream(t *testing.T) {
	for _, fields := range [][]string{
		{"Content-Type", "text/event-stream"},
		{"Content-Type", "text/event-stream; charset=utf-8"},
		{"Content-Type", "text/event-stream;charset=UTF-8"},
		{"Content-Type", "Text/Event-Stream"},
		{"Content-Type", "text/event-stream; charset"},
		{"Content-Type", "text/event-stream", "Content-Encoding", "identity"},
	} {
		x := begin(t)
		x.stream(fields...)
		x.write(role)
		x.abort().wantSwallowed(t)
		if got, want := x.rec.body.String(), role+errorFinish("upstream_aborted", false); got != want {
			t.Errorf("%q was not taken for a stream: %s", fields, got)
		}
		if got := x.rec.sent.Get("Content-Type"); got != fields[1] {
			t.Errorf("Content-Type %q became %q", fields[1], got)
		}
	}
}

func TestErrorOfAnAnswerThatHasLeftIsReturned(t *testing.T) {
	x := begin(t, option(func(o *proxy.Options) {
		o.ErrorStatus = func(error) int { return http.StatusBadGateway }
	}))
	x.write("{")
	x.ret(errTest).wantError(t, errTest)
	x.wantBody("{")
}

func TestForeignStreamPassesByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := []string{
			"\xef\xbb\xbfid: 1\r\n", "event: response.created\r\ndata: {\"type\":\"response.created\"}\r\n\r\n",
			": comment\n\n", "retry: 10\n\n", "data: `💻 ls`\n\n", "data: [DONE]\n\n", "data: {\"choices\":[]}\n\n", "data: torn",
		}
		x := begin(t, path(otherPath), option(everything))
		x.stream("Content-Length", "1000")
		for _, p := range pieces {
			x.write(p)
			x.flush()
			advance(time.Hour) // no deadline is ours
		}
		x.ret(nil).wantSwallowed(t)
		x.wantBody(strings.Join(pieces, ""))
		if len(x.ends) > 0 {
			t.Errorf("the observer was told of it: %+v", x.ends)
		}
	})
}

func TestHeaderOfAStreamThatMayNotBeOursIsNotHeld(t *testing.T) {
	x := begin(t, path(otherPath))
	x.stream()
	x.flush()
	x.wantLog("header 200", "flush")
	x.flush()
	x.wantLog("header 200", "flush")
	x.ret(nil)
}

func TestOtherPathBecomesActiveAtTheFirstChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, path(otherPath), option(func(o *proxy.Options) {
			o.IdleTimeout, o.Keepalive = time.Minute, time.Second
		}))
		x.stream()
		x.write(foreign, "data: `💻 ls`\n\n")
		advance(time.Hour)
		x.wantBody(foreign + "data: `💻 ls`\n\n")
		x.write(role, text("\\n`💻 ls`\\n"), text("Hello"))
		if got := x.rec.body.String(); !strings.Contains(got, `"status":"running"`) || !strings.HasSuffix(got, text("Hello")) {
			t.Errorf("the stream was not repaired from its first chunk on:\n%s", got)
		}
		x.rec.body.Reset()
		advance(time.Second)
		x.wantBody(beatForm)
		x.abort().wantSwallowed(t)
		x.wantBody(beatForm + errorFinish("upstream_aborted", true))
		if res := x.result(); res.Outcome != "upstream_aborted" {
			t.Errorf("outcome %q, want upstream_aborted", res.Outcome)
		}
	})
}

func TestPathsOfChatCompletions(t *testing.T) {
	for p, chat := range map[string]bool{
		"/v1/chat/completions":       true,
		"/chat/completions":          true,
		"/a/b/v1/chat/completions":   true,
		"/v1/chat/completions/":      false,
		"/v1/chat/completions/1":     false,
		"/v1/completions":            false,
		"/v1/responses":              false,
		"/v1/runs/1/events":          false,
		"/v1/chatcompletions":        false,
		"/v1/xchat/completions":      false,
		"/v1/responses?x=/completio": false,
	} {
		x := begin(t, path(p))
		x.stream()
		x.flush()
		x.ret(nil)
		if answered := slices.Contains(x.rec.log, "header 502"); answered != chat {
			t.Errorf("%s was taken for chat completions: %v, want %v", p, answered, chat)
		}
	}
}

func TestStreamThatBecomesActiveWithItsTailIsEnded(t *testing.T) {
	x := begin(t, path(otherPath))
	x.stream()
	x.write(foreign, strings.TrimRight(role, "\n"))
	x.abort().wantSwallowed(t)
	x.wantBody(foreign + role + errorFinish("upstream_aborted", false))
}
