package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The table of contract section 3, line by line.
func TestEnds(t *testing.T) {
	text, end := hermes.One(hermes.Delta("content", "hi")), hermes.One(hermes.Finish("stop", 56))
	marker := hermes.One(hermes.Delta("content", "\n`💻 ls`\n"))
	start := func(frames ...[]string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Events()
			for _, f := range append([][]string{hermes.One(hermes.Role)}, frames...) {
				x.Frame(f...)
			}
		}
	}
	then := func(s upstream.Script, more func(x *upstream.Exchange)) upstream.Script {
		return func(x *upstream.Exchange) { s(x); more(x) }
	}
	clean := func(x *upstream.Exchange) { x.End() }
	rules := []struct {
		name string
		play upstream.Script
		code string // "" for a success
	}{
		{"finish and [DONE]", then(start(text, end, hermes.One("data: [DONE]")), clean), ""},
		{"finish and [DONE], then silence", then(start(text, end, hermes.One("data: [DONE]")), (*upstream.Exchange).Silence), ""},
		{"finish and [DONE], then a reset", then(start(text, end, hermes.One("data: [DONE]")), (*upstream.Exchange).Reset), ""},
		{"finish, then a clean end", then(start(text, end), clean), ""},
		{"finish, then FIN inside a chunk", then(start(text, end), func(x *upstream.Exchange) { x.Torn(nil) }), ""},
		{"finish, then a reset", then(start(text, end), (*upstream.Exchange).Reset), ""},
		{"finish, then silence of done_grace", then(start(text, end), (*upstream.Exchange).Silence), ""},
		{"a clean end without finish", then(start(text), clean), "upstream_incomplete"},
		{"a clean end inside a frame", then(start(text), func(x *upstream.Exchange) { x.Chunk([]byte(`data: {"id": "chat`)); x.End() }), "upstream_incomplete"},
		{"[DONE] without finish", then(start(text, hermes.One("data: [DONE]")), clean), "upstream_incomplete"},
		{"[DONE] without finish, then silence", then(start(text, hermes.One("data: [DONE]")), (*upstream.Exchange).Silence), "upstream_incomplete"},
		{"FIN inside a chunk", then(start(text), func(x *upstream.Exchange) { x.Torn([]byte(`data: {"id"`)) }), "upstream_aborted"},
		{"a reset", then(start(text), (*upstream.Exchange).Reset), "upstream_aborted"},
		{"a reset while a tool runs", then(start(text, marker), (*upstream.Exchange).Reset), "upstream_aborted"},
		{"a reset while a G2 tool runs", then(start(text, hermes.Running("terminal", "c1")), (*upstream.Exchange).Reset), "upstream_aborted"},
		{"a reset after the role alone", then(start(), (*upstream.Exchange).Reset), "upstream_aborted"},
		{"finish error alone", then(start(text, hermes.One("data: "+hermes.Envelope+`"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}`), hermes.One("data: [DONE]")), clean), "agent_error"},
		{"a last frame that lacks its blank line", then(start(text), func(x *upstream.Exchange) { x.Chunk([]byte(hermes.Finish("stop", 56))); x.End() }), ""},
	}
	scripts := upstream.Router{}
	for _, r := range rules {
		scripts[r.name] = r.play
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"done_grace": "100ms", "keepalive": 0})
	c := client.New(t, base)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if strings.HasSuffix(r.name, "silence of done_grace") {
				defer harness.AtLeast(t, 100*time.Millisecond)()
			}
			a := c.Of(t).Play(r.name).Answer()
			want := "hi"
			if strings.Contains(r.name, "alone") && r.code == "upstream_aborted" {
				want = ""
			}
			if a.Content != want {
				t.Errorf("content %q, want %q", a.Content, want)
			}
			if r.code == "" {
				a.CheckGood(t)
			} else {
				a.CheckError(t, r.code)
			}
		})
	}
}

// A cut inside a frame that passed unexamined is closed with a blank line first.
func TestCutInsideAnUnexaminedFrame(t *testing.T) {
	big := strings.Repeat("x", 4<<10)
	open := "data: " + hermes.Envelope + `"choices": [{"index": 0, "delta": {"content": "` + big
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		x.Chunk([]byte(open))
		x.Torn(nil)
	}), sidecar.Still.With(sidecar.Options{"max_frame": 1024}))
	body := client.New(t, base).Chat().All()
	rest, ok := strings.CutPrefix(body, hermes.Role+"\n\n"+open+"\n\n")
	if !ok {
		t.Fatalf("got %q", harness.Clip(body[len(hermes.Role):]))
	}
	strict.Decode(t, rest).CheckError(t, "upstream_aborted")
}

// An error that upstream has sent in a frame of its own is not sent again: the
// finish chunk that lacks is added.
func TestErrorOfUpstreamsOwnIsSentOnce(t *testing.T) {
	failure := hermes.One(`data: {"error": {"message": "overloaded", "type": "server_error", "param": null, "code": "busy"}}`)
	scripts := upstream.Router{
		"[DONE]":  upstream.Lines(hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "hi")), failure, hermes.One("data: [DONE]")),
		"the end": upstream.Lines(hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "hi")), failure),
		"a reset": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Frame(failure...)
			x.Reset()
		},
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	for name := range scripts {
		t.Run("then "+name, func(t *testing.T) {
			a := c.Of(t).Play(name).Answer()
			if got := strings.Join(a.Names(), " "); got != "chunk text error finish error done" || a.Err.Message != "overloaded" {
				t.Errorf("frames %q, error %+v", got, a.Err)
			}
		})
	}
}

// What an answer says and what tools are told is nobody's business but the
// client's.
func TestLogsHaveNoContent(t *testing.T) {
	all := []hermes.Recording{hermes.Recorded(t, "g0-v0.8.0/one_tool"), hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), hermes.Recorded(t, "g0-v0.8.0/model_imitates"),
		hermes.Recorded(t, "g2-v0.13.0/crash_in_tool"), hermes.Recorded(t, "g0-v0.8.0/crash_after_text")}
	scripts := upstream.Library(all, upstream.ByFrame)
	scripts["cut"] = func(x *upstream.Exchange) {
		x.Begin("make test")
		x.Reset()
	}
	base, s := sidecar.Serve(t, upstream.New(t, scripts.Play), nil)
	for name := range scripts {
		client.New(t, base).Play(name, "Authorization", "Bearer hermes-key-1").Answer()
	}
	s.Terminate() // what is logged of a stream is logged behind its end
	s.Exit()
	if !warned(s) {
		t.Error("nothing is logged of crashes")
	}
	for _, text := range []string{"ls -la", "make test", "There are", "Running", "Partial", "hermes-key-1", `"hi"`} {
		if strings.Contains(s.Log.String(), text) {
			t.Errorf("%q is in the log:\n%s", text, s.Log)
		}
	}
}

// Before the first complete frame a failure is an HTTP status with JSON.
func TestFailuresBeforeTheFirstFrame(t *testing.T) {
	scripts := upstream.Router{
		"closed without an answer": (*upstream.Exchange).Fin,
		"reset without an answer":  (*upstream.Exchange).Reset,
		"a clean end without a frame": func(x *upstream.Exchange) {
			x.Events()
			x.End()
		},
		"FIN inside the first frame":   func(x *upstream.Exchange) { x.Events(); x.Torn([]byte(hermes.Role[:40])) },
		"reset inside the first frame": func(x *upstream.Exchange) { x.Events(); x.Chunk([]byte(hermes.Role[:40])); x.Reset() },
		"a plain close inside the first frame": func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.Raw(hermes.Role[:40])
			x.Fin()
		},
	}
	up := upstream.New(t, scripts.Play)
	c := client.New(t, sidecar.URL(sidecar.Serve(t, up, nil)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			client.CheckJSON(t, c.Of(t).Play(name), http.StatusBadGateway, up.Addr)
		})
	}
	t.Run("connection refused", func(t *testing.T) {
		dead := &upstream.Server{Addr: harness.FreePort(t)}
		client.CheckJSON(t, client.New(t, sidecar.URL(sidecar.Serve(t, dead, nil))).Chat(), http.StatusBadGateway, dead.Addr)
	})
}

// What G3 puts into one chunk is split; message, type, usage and block stay.
func TestErrorFinishOfG3IsSplit(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && strings.Contains(string(r.Body), `"finish_reason": "error"`) && !strings.Contains(string(r.Body), "sk-")
	})
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still)))
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			was := strict.Decode(t, string(r.Body))
			a := c.Of(t).Play(r.String()).Answer()
			a.CheckError(t, "agent_error")
			if was.Err != nil && (a.Err.Message != was.Err.Message || a.Err.Type != was.Err.Type) {
				t.Errorf("error %+v, want %+v", *a.Err, *was.Err)
			}
			if *a.Last.Hermes != *was.Last.Hermes || a.Last.Usage == nil || *a.Last.Usage != *was.Last.Usage {
				t.Errorf("block %+v, usage %v; want %+v, %v", *a.Last.Hermes, a.Last.Usage, *was.Last.Hermes, *was.Last.Usage)
			}
		})
	}
}

// With error_finish inline G3's chunk stays, and generated errors look like it.
func TestInlineErrorFinish(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && strings.Contains(string(r.Body), `"finish_reason": "error"`) && !strings.Contains(string(r.Body), "sk-")
	})
	scripts := upstream.Library(all, upstream.ByFrame)
	scripts["cut"] = func(x *upstream.Exchange) {
		x.Begin("hi")
		x.Frame(hermes.Running("terminal", "c1")...)
		x.Reset()
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still.With(sidecar.Options{"error_finish": "inline", "progress": "bare"}))))
	for _, r := range all {
		got := c.Play(r.String()).All()
		if r.Scenario == "crash_in_tool" {
			// It leaves its tool open, so one completed is added.
			got = strings.Replace(got, "event: hermes.tool.progress\n"+frameWith(got, `"completed"}`)+"\n\n", "", 1)
		}
		if got != string(r.Body) {
			t.Errorf("%s: got\n%s\nwant\n%s", r, got, r.Body)
		}
	}
	a := strict.Decode(t, c.Play("cut").All())
	if got := strings.Join(a.Names(), " "); got != "chunk text running completed finish error done" {
		t.Fatalf("frames %q", got)
	}
	if a.Last.Error == nil || a.Last.Error.Message == "" || a.Last.Error.Code != "" && a.Last.Error.Code != "upstream_aborted" ||
		a.Last.Hermes == nil || a.Last.Hermes.ErrorCode == "" || !a.Last.Hermes.Partial || a.Last.Hermes.Completed || !a.Last.Hermes.Failed {
		t.Errorf("error %+v, block %+v", a.Last.Error, a.Last.Hermes)
	}
}

// frameWith is the first line of s that contains text.
func frameWith(s, text string) string {
	for l := range strings.SplitSeq(s, "\n") {
		if strings.Contains(l, text) {
			return l
		}
	}
	return ""
}

// finish_reason length passes byte for byte, error object and all.
func TestLengthPassesAsItIs(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && strings.Contains(string(r.Body), `"finish_reason": "length"`)
	})
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still)))
	for _, r := range all {
		if got := c.Play(r.String()).All(); got != string(r.Body) {
			t.Errorf("%s: got\n%s\nwant\n%s", r, got, r.Body)
		}
	}
}

// Keys and tokens in upstream's messages do not reach the client.
func TestSecretsAreRedacted(t *testing.T) {
	const key, token = "sk-proj-4f9aK2x8Q0bZ7mN3vR6t", "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.c2ln"
	messages := map[string]string{
		"a key":              "401: key " + key + " is wrong",
		"a key at the start": key + ": 401",
		"a key in quotes":    `401: "` + key + `"`,
		"a key on a line":    "401:\n" + key,
		"a key behind a tab": "401:\t" + key,
		"a key in an URL":    "401: https://api.example/v1?key=" + key,
		"a token":            "401: Authorization: Bearer " + token,
		"a token on a line":  "401:\nBearer " + token,
		"a small token":      "401: authorization: bearer " + token,
		"both":               "401: Bearer " + token + ", Bearer " + key,
	}
	scripts := upstream.Router{}
	for name, m := range messages {
		m := hermes.ASCII(m)
		last := "data: " + hermes.Envelope + `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"message": ` + m +
			`, "type": "AuthError"}, "hermes": {"completed": false, "partial": false, "failed": true, "error": ` + m + `, "error_code": "agent_error"}}`
		scripts[name] = upstream.Lines(hermes.One(hermes.Role), hermes.One(last), hermes.One("data: [DONE]"))
	}
	up := upstream.New(t, scripts.Play)
	for _, form := range []string{"split", "inline"} {
		base, s := sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"error_finish": form}))
		for name := range messages {
			t.Run(form+" "+name, func(t *testing.T) {
				body := client.New(t, base).Play(name, "Authorization", "Bearer "+token).All()
				if strings.Contains(body, key) || strings.Contains(body, token) {
					t.Errorf("a secret is in the answer:\n%s", body)
				}
				if a := strict.Decode(t, body); a.Finish != "error" || a.Err == nil || !strings.Contains(a.Err.Message, "401") {
					t.Errorf("the message is gone:\n%s", body)
				}
			})
		}
		s.Terminate()
		s.Exit()
		if log := s.Log.String(); strings.Contains(log, key) || strings.Contains(log, token) {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	}
}
