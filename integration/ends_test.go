package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// role is the first chunk of every stream.
var role = delta("role", "assistant")

// The table of contract section 3, line by line.
func TestEnds(t *testing.T) {
	text, end := one(delta("content", "hi")), one(finish("stop", 56))
	marker := one(delta("content", "\n`💻 ls`\n"))
	start := func(frames ...[]string) script {
		return func(x *exchange) {
			x.events()
			for _, f := range append([][]string{one(role)}, frames...) {
				x.frame(f...)
			}
		}
	}
	then := func(s script, more func(x *exchange)) script {
		return func(x *exchange) { s(x); more(x) }
	}
	clean := func(x *exchange) { x.end() }
	rules := []struct {
		name string
		play script
		code string // "" for a success
	}{
		{"finish and [DONE]", then(start(text, end, one("data: [DONE]")), clean), ""},
		{"finish and [DONE], then silence", then(start(text, end, one("data: [DONE]")), (*exchange).silence), ""},
		{"finish and [DONE], then a reset", then(start(text, end, one("data: [DONE]")), (*exchange).reset), ""},
		{"finish, then a clean end", then(start(text, end), clean), ""},
		{"finish, then FIN inside a chunk", then(start(text, end), func(x *exchange) { x.torn(nil) }), ""},
		{"finish, then a reset", then(start(text, end), (*exchange).reset), ""},
		{"finish, then silence of done_grace", then(start(text, end), (*exchange).silence), ""},
		{"a clean end without finish", then(start(text), clean), "upstream_incomplete"},
		{"a clean end inside a frame", then(start(text), func(x *exchange) { x.chunk([]byte(`data: {"id": "chat`)); x.end() }), "upstream_incomplete"},
		{"[DONE] without finish", then(start(text, one("data: [DONE]")), clean), "upstream_incomplete"},
		{"[DONE] without finish, then silence", then(start(text, one("data: [DONE]")), (*exchange).silence), "upstream_incomplete"},
		{"FIN inside a chunk", then(start(text), func(x *exchange) { x.torn([]byte(`data: {"id"`)) }), "upstream_aborted"},
		{"a reset", then(start(text), (*exchange).reset), "upstream_aborted"},
		{"a reset while a tool runs", then(start(text, marker), (*exchange).reset), "upstream_aborted"},
		{"a reset while a G2 tool runs", then(start(text, running("terminal", "c1")), (*exchange).reset), "upstream_aborted"},
		{"a reset after the role alone", then(start(), (*exchange).reset), "upstream_aborted"},
		{"finish error alone", then(start(text, one("data: "+envelope+`"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}`), one("data: [DONE]")), clean), "agent_error"},
		{"a last frame that lacks its blank line", then(start(text), func(x *exchange) { x.chunk([]byte(finish("stop", 56))); x.end() }), ""},
	}
	scripts := router{}
	for _, r := range rules {
		scripts[r.name] = r.play
	}
	base, _ := serve(t, newUpstream(t, scripts.play), options{"done_grace": "100ms", "keepalive": 0})
	c := newClient(t, base)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if strings.HasSuffix(r.name, "silence of done_grace") {
				defer atLeast(t, 100*time.Millisecond)()
			}
			a := c.of(t).play(r.name).answer()
			want := "hi"
			if strings.Contains(r.name, "alone") && r.code == "upstream_aborted" {
				want = ""
			}
			if a.content != want {
				t.Errorf("content %q, want %q", a.content, want)
			}
			if r.code == "" {
				a.checkGood(t)
			} else {
				a.checkError(t, r.code)
			}
		})
	}
}

// A cut inside a frame that passed unexamined is closed with a blank line first.
func TestCutInsideAnUnexaminedFrame(t *testing.T) {
	big := strings.Repeat("x", 4<<10)
	open := "data: " + envelope + `"choices": [{"index": 0, "delta": {"content": "` + big
	base, _ := serve(t, newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		x.chunk([]byte(open))
		x.torn(nil)
	}), still.with(options{"max_frame": 1024}))
	body := newClient(t, base).chat().all()
	rest, ok := strings.CutPrefix(body, role+"\n\n"+open+"\n\n")
	if !ok {
		t.Fatalf("got %q", clip(body[len(role):]))
	}
	decode(t, rest).checkError(t, "upstream_aborted")
}

// An error that upstream has sent in a frame of its own is not sent again: the
// finish chunk that lacks is added.
func TestErrorOfUpstreamsOwnIsSentOnce(t *testing.T) {
	failure := one(`data: {"error": {"message": "overloaded", "type": "server_error", "param": null, "code": "busy"}}`)
	scripts := router{
		"[DONE]":  lines(one(role), one(delta("content", "hi")), failure, one("data: [DONE]")),
		"the end": lines(one(role), one(delta("content", "hi")), failure),
		"a reset": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "hi"))
			x.frame(failure...)
			x.reset()
		},
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still)))
	for name := range scripts {
		t.Run("then "+name, func(t *testing.T) {
			a := c.of(t).play(name).answer()
			if got := strings.Join(a.names(), " "); got != "chunk text error finish error done" || a.err.Message != "overloaded" {
				t.Errorf("frames %q, error %+v", got, a.err)
			}
		})
	}
}

// What an answer says and what tools are told is nobody's business but the
// client's.
func TestLogsHaveNoContent(t *testing.T) {
	all := []recording{recorded(t, "g0-v0.8.0/one_tool"), recorded(t, "g0-v0.8.0/crash_in_tool"), recorded(t, "g0-v0.8.0/model_imitates"),
		recorded(t, "g2-v0.13.0/crash_in_tool"), recorded(t, "g0-v0.8.0/crash_after_text")}
	scripts := library(all, byFrame)
	scripts["cut"] = func(x *exchange) { x.events(); x.frame(role); x.frame(delta("content", "make test")); x.reset() }
	base, s := serve(t, newUpstream(t, scripts.play), nil)
	for name := range scripts {
		newClient(t, base).play(name, "Authorization", "Bearer hermes-key-1").answer()
	}
	s.terminate() // what is logged of a stream is logged behind its end
	s.exit()
	if len(s.log.entries()) == 0 {
		t.Error("nothing is logged of crashes")
	}
	for _, text := range []string{"ls -la", "make test", "There are", "Running", "Partial", "hermes-key-1", `"hi"`} {
		if strings.Contains(s.log.String(), text) {
			t.Errorf("%q is in the log:\n%s", text, s.log)
		}
	}
}

// Before the first complete frame a failure is an HTTP status with JSON.
func TestFailuresBeforeTheFirstFrame(t *testing.T) {
	scripts := router{
		"closed without an answer": (*exchange).fin,
		"reset without an answer":  (*exchange).reset,
		"a clean end without a frame": func(x *exchange) {
			x.events()
			x.end()
		},
		"FIN inside the first frame":   func(x *exchange) { x.events(); x.torn([]byte(role[:40])) },
		"reset inside the first frame": func(x *exchange) { x.events(); x.chunk([]byte(role[:40])); x.reset() },
		"a plain close inside the first frame": func(x *exchange) {
			x.header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.raw(role[:40])
			x.fin()
		},
	}
	up := newUpstream(t, scripts.play)
	c := newClient(t, first(serve(t, up, nil)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			checkJSON(t, c.of(t).play(name), http.StatusBadGateway, up.addr)
		})
	}
	t.Run("connection refused", func(t *testing.T) {
		dead := &upstream{addr: freePort(t)}
		checkJSON(t, newClient(t, first(serve(t, dead, nil))).chat(), http.StatusBadGateway, dead.addr)
	})
}

// checkJSON wants a status with an OpenAI error in JSON that names no address.
func checkJSON(t *testing.T, r *reply, status int, addr string) apiError {
	t.Helper()
	body := r.all()
	var got struct {
		Error apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Message == "" || got.Error.Type == "" {
		t.Fatalf("%s, body %q: %v", r.Status, clip(body), err)
	}
	if r.StatusCode != status || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%s %s, want %d and JSON", r.Status, r.Header.Get("Content-Type"), status)
	}
	if strings.Contains(body, addr) || strings.Contains(body, "127.0.0.1") {
		t.Errorf("the message names an address: %s", body)
	}
	return got.Error
}

// What G3 puts into one chunk is split; message, type, usage and block stay.
func TestErrorFinishOfG3IsSplit(t *testing.T) {
	all := recordings(t, func(r recording) bool {
		return chats(r) && strings.Contains(string(r.body), `"finish_reason": "error"`) && !strings.Contains(string(r.body), "sk-")
	})
	c := newClient(t, first(serve(t, newUpstream(t, library(all, byFrame).play), still)))
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			was := decode(t, string(r.body))
			a := c.of(t).play(r.String()).answer()
			a.checkError(t, "agent_error")
			if was.err != nil && (a.err.Message != was.err.Message || a.err.Type != was.err.Type) {
				t.Errorf("error %+v, want %+v", *a.err, *was.err)
			}
			if *a.last.Hermes != *was.last.Hermes || a.last.Usage == nil || *a.last.Usage != *was.last.Usage {
				t.Errorf("block %+v, usage %v; want %+v, %v", *a.last.Hermes, a.last.Usage, *was.last.Hermes, *was.last.Usage)
			}
		})
	}
}

// With error_finish inline G3's chunk stays, and generated errors look like it.
func TestInlineErrorFinish(t *testing.T) {
	all := recordings(t, func(r recording) bool {
		return chats(r) && strings.Contains(string(r.body), `"finish_reason": "error"`) && !strings.Contains(string(r.body), "sk-")
	})
	scripts := library(all, byFrame)
	scripts["cut"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(delta("content", "hi"))
		x.frame(running("terminal", "c1")...)
		x.reset()
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still.with(options{"error_finish": "inline", "progress": "bare"}))))
	for _, r := range all {
		got := c.play(r.String()).all()
		if r.scenario == "crash_in_tool" {
			// It leaves its tool open, so one completed is added.
			got = strings.Replace(got, "event: hermes.tool.progress\n"+frameWith(got, `"completed"}`)+"\n\n", "", 1)
		}
		if got != string(r.body) {
			t.Errorf("%s: got\n%s\nwant\n%s", r, got, r.body)
		}
	}
	a := decode(t, c.play("cut").all())
	if got := strings.Join(a.names(), " "); got != "chunk text running completed finish error done" {
		t.Fatalf("frames %q", got)
	}
	if a.last.Error == nil || a.last.Error.Message == "" || a.last.Error.Code != "" && a.last.Error.Code != "upstream_aborted" ||
		a.last.Hermes == nil || a.last.Hermes.ErrorCode == "" || !a.last.Hermes.Partial || a.last.Hermes.Completed || !a.last.Hermes.Failed {
		t.Errorf("error %+v, block %+v", a.last.Error, a.last.Hermes)
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
	all := recordings(t, func(r recording) bool {
		return chats(r) && strings.Contains(string(r.body), `"finish_reason": "length"`)
	})
	c := newClient(t, first(serve(t, newUpstream(t, library(all, byFrame).play), still)))
	for _, r := range all {
		if got := c.play(r.String()).all(); got != string(r.body) {
			t.Errorf("%s: got\n%s\nwant\n%s", r, got, r.body)
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
	scripts := router{}
	for name, m := range messages {
		m := ascii(m)
		last := "data: " + envelope + `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"message": ` + m +
			`, "type": "AuthError"}, "hermes": {"completed": false, "partial": false, "failed": true, "error": ` + m + `, "error_code": "agent_error"}}`
		scripts[name] = lines(one(role), one(last), one("data: [DONE]"))
	}
	up := newUpstream(t, scripts.play)
	for _, form := range []string{"split", "inline"} {
		base, s := serve(t, up, still.with(options{"error_finish": form}))
		for name := range messages {
			t.Run(form+" "+name, func(t *testing.T) {
				body := newClient(t, base).play(name, "Authorization", "Bearer "+token).all()
				if strings.Contains(body, key) || strings.Contains(body, token) {
					t.Errorf("a secret is in the answer:\n%s", body)
				}
				if a := decode(t, body); a.finish != "error" || a.err == nil || !strings.Contains(a.err.Message, "401") {
					t.Errorf("the message is gone:\n%s", body)
				}
			})
		}
		s.terminate()
		s.exit()
		if log := s.log.String(); strings.Contains(log, key) || strings.Contains(log, token) {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	}
}
