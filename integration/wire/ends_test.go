package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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

// The table of contract section 3, line by line: the frames after the role, and what becomes of the connection.
func TestEnds(t *testing.T) {
	text, end, done := hermes.One(hermes.Delta("content", "hi")), hermes.One(hermes.Finish("stop", 56)), hermes.One("data: [DONE]")
	marker := hermes.One(hermes.Delta("content", "\n`💻 ls`\n"))
	failed := hermes.One("data: " + hermes.Envelope + `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}`)
	clean, silence, reset := (*upstream.Exchange).End, (*upstream.Exchange).Silence, (*upstream.Exchange).Reset
	torn := func(part string) upstream.Script { return func(x *upstream.Exchange) { x.Torn([]byte(part)) } }
	chunk := func(part string) upstream.Script {
		return func(x *upstream.Exchange) { x.Chunk([]byte(part)); x.End() }
	}
	const grace = 100 * time.Millisecond
	rules := []struct {
		name   string
		frames [][]string
		then   upstream.Script
		code   string // "" for a success
	}{
		{"finish and [DONE]", [][]string{text, end, done}, clean, ""},
		{"finish and [DONE], then silence", [][]string{text, end, done}, silence, ""},
		{"finish and [DONE], then a reset", [][]string{text, end, done}, reset, ""},
		{"finish, then a clean end", [][]string{text, end}, clean, ""},
		{"finish, then FIN inside a chunk", [][]string{text, end}, torn(""), ""},
		{"finish, then a reset", [][]string{text, end}, reset, ""},
		{"finish, then silence of done_grace", [][]string{text, end}, silence, ""},
		{"a clean end without finish", [][]string{text}, clean, "upstream_incomplete"},
		{"a clean end inside a frame", [][]string{text}, chunk(`data: {"id": "chat`), "upstream_incomplete"},
		{"[DONE] without finish", [][]string{text, done}, clean, "upstream_incomplete"},
		{"[DONE] without finish, then silence", [][]string{text, done}, silence, "upstream_incomplete"},
		{"FIN inside a chunk", [][]string{text}, torn(`data: {"id"`), "upstream_aborted"},
		{"a reset", [][]string{text}, reset, "upstream_aborted"},
		{"a reset while a tool runs", [][]string{text, marker}, reset, "upstream_aborted"},
		{"a reset while a G2 tool runs", [][]string{text, hermes.Running("terminal", "c1")}, reset, "upstream_aborted"},
		{"a reset after the role alone", nil, reset, "upstream_aborted"},
		{"finish error alone", [][]string{text, failed, done}, clean, "agent_error"},
		{"a last frame that lacks its blank line", [][]string{text}, chunk(hermes.Finish("stop", 56)), ""},
	}
	scripts := upstream.Router{}
	for _, r := range rules {
		scripts[r.name] = func(x *upstream.Exchange) {
			x.Begin()
			for _, f := range r.frames {
				x.Frame(f...)
			}
			r.then(x)
		}
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"done_grace": grace.String(), "keepalive": 0})))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if strings.HasSuffix(r.name, "silence of done_grace") {
				defer harness.AtLeast(t, grace)()
			}
			a := c.Of(t).Play(r.name).Answer()
			checkEnd(t, a, r.code)
			if want := map[bool]string{true: "hi"}[r.frames != nil]; a.Content != want {
				t.Errorf("content %q, want %q", a.Content, want)
			}
		})
	}
}

// checkEnd wants the error of a code, or a success.
func checkEnd(t testing.TB, a *strict.Answer, code string) {
	t.Helper()
	if code == "" {
		a.CheckGood(t)
	} else {
		a.CheckError(t, code)
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

// A turn that its request mutes is empty by intent: no empty_answer for it. Only a
// diagnostic request that names a session is one of these, and a crash stays a crash.
func TestMutedTurns(t *testing.T) {
	scripts := upstream.Router{}
	for _, name := range []string{"g3-v0.20.3/empty", "agent-loop/g2-v0.13.0/fail_second_call", "g3-v0.20.3/zero_usage_empty", "g0-v0.8.0/unstreamed"} {
		scripts[name] = upstream.Replay(hermes.Recorded(t, name), upstream.ByFrame)
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"max_request": 64 << 10})
	const diagnostic = `,"hermes_notification_category":"diagnostic"`
	for _, c := range []struct {
		name, members, session, code string
		chunked                      bool
	}{
		{"g3-v0.20.3/empty", diagnostic, "s1", "", false},
		{"g3-v0.20.3/empty", diagnostic, "s1", "", true},
		{"g0-v0.8.0/unstreamed", diagnostic, "s1", "", false},
		{"agent-loop/g2-v0.13.0/fail_second_call", diagnostic, "s1", "", false}, // it ends on a tool
		{"g3-v0.20.3/empty", "", "s1", "empty_answer", false},
		{"g3-v0.20.3/empty", diagnostic, "", "empty_answer", false},
		{"g3-v0.20.3/empty", `,"hermes_notification_category":"result"`, "s1", "empty_answer", false},
		{"g3-v0.20.3/empty", diagnostic + `,"x":"` + strings.Repeat("x", 64<<10) + `"`, "s1", "empty_answer", false}, // it is not read
		{"g3-v0.20.3/zero_usage_empty", diagnostic, "s1", "agent_crashed", false},
	} {
		t.Run(c.name+" "+c.members[:min(len(c.members), 50)]+" "+c.session, func(t *testing.T) {
			body := client.Body(`{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"hi"}]`+c.members+`}`, c.chunked)
			a := client.New(t, base).Send(http.MethodPost, "/v1/chat/completions", body, "X-Play", c.name, "X-Hermes-Session-Id", c.session).Answer()
			checkEnd(t, a, c.code)
		})
	}
}

// By default text with usage 0/0/0 is a crash once this upstream has reported
// usage for this model. A reload and a restart do not forget that.
func TestZeroUsageIsACrashOnceUsageIsKnown(t *testing.T) {
	crash, plain := hermes.Recorded(t, "g0-v0.8.0/crash_after_text"), hermes.Recorded(t, "g0-v0.8.0/plain")
	other := crash
	other.Body = bytes.ReplaceAll(crash.Body, []byte(`"hermes-agent"`), []byte(`"other-agent"`))
	scripts := upstream.Router{"crash": upstream.Replay(crash, upstream.ByFrame), "plain": upstream.Replay(plain, upstream.ByFrame), "other model": upstream.Replay(other, upstream.ByFrame)}
	up, second := upstream.New(t, scripts.Play), upstream.New(t, scripts.Play)

	home := t.TempDir()
	conf := sidecar.Config{Admin: harness.FreePort(t), Sites: []sidecar.Site{
		{Listen: harness.FreePort(t), Upstream: up.Addr}, {Listen: harness.FreePort(t), Upstream: second.Addr},
	}}
	clients := func(t *testing.T) (c, elsewhere *client.Client) {
		c, elsewhere = client.New(t, "http://"+conf.Sites[0].Listen), client.New(t, "http://"+conf.Sites[1].Listen)
		c.Reloading, elsewhere.Reloading = true, true
		return c, elsewhere
	}
	known := func(t *testing.T) {
		t.Helper()
		c, elsewhere := clients(t)
		c.Play("crash").Answer().CheckError(t, "agent_crashed")
		c.Play("other model").Answer().CheckGood(t)
		elsewhere.Play("crash").Answer().CheckGood(t)
	}
	s := sidecar.Run(t, home, conf)
	t.Run("unknown", func(t *testing.T) {
		c, _ := clients(t)
		c.Play("crash").Answer().CheckGood(t)
	})
	t.Run("known", func(t *testing.T) {
		c, _ := clients(t)
		c.Play("plain").Answer().CheckGood(t)
		known(t)
	})
	t.Run("after a reload", func(t *testing.T) {
		conf.Grace = "1m"
		s.Load(conf)
		known(t)
	})
	t.Run("after a restart", func(t *testing.T) {
		s.Terminate()
		s.Exit()
		sidecar.Run(t, home, conf)
		known(t)
	})
}

// An otherStream is what Hermes sends on one of the other paths, cut before its last event.
type otherStream struct {
	hermes.Recording
	frames []string // without their blank lines, and without the last event
	last   string   // the one that ends it
}

// otherStreams reads one recording of each kind.
func otherStreams(t testing.TB) map[string]otherStream {
	all := map[string]otherStream{}
	for kind, name := range map[string]string{"responses": "g3-v0.20.3/responses.one_tool", "runs": "g3-v0.20.3/runs.one_tool"} {
		o := otherStream{Recording: hermes.Recorded(t, name)}
		for f := range strings.SplitSeq(strings.TrimSuffix(string(o.Body), "\n\n"), "\n\n") {
			if strings.HasPrefix(f, ":") {
				continue
			}
			o.frames = append(o.frames, f)
		}
		n := len(o.frames) - 1
		o.frames, o.last = o.frames[:n], o.frames[n]
		all[kind] = o
	}
	return all
}

// inTool returns the stream up to the frame that has start, with which a tool starts.
func (o otherStream) inTool(start string) otherStream {
	n := slices.IndexFunc(o.frames, func(frame string) bool { return strings.Contains(frame, start) })
	o.frames = o.frames[:n+1]
	return o
}

// begin sends the frames.
func (o otherStream) begin(x *upstream.Exchange) {
	x.Events()
	for _, f := range o.frames {
		x.Frame(f)
	}
}

// checkFailed wants the frames and the failed event after them, with a message that has the words.
func (o otherStream) checkFailed(t testing.TB, body, words string) {
	t.Helper()
	sent := strings.Join(o.frames, "\n\n") + "\n\n"
	rest, ok := strings.CutPrefix(body, sent)
	if !ok {
		t.Errorf("got %q", body)
		return
	}
	name, data, named := strings.Cut(rest, "\ndata: ")
	if !named {
		data = strings.TrimPrefix(name, "data: ")
	}
	var e struct {
		Type     string
		Number   int `json:"sequence_number"`
		Response struct {
			ID, Object, Status, Model string
			Error                     struct{ Code, Message string }
			Output                    []any
		}
		Event     string
		RunID     string `json:"run_id"`
		Timestamp float64
		Error     string
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil || !strings.HasSuffix(rest, "}\n\n") || strings.Count(rest, "\n\n") != 1 {
		t.Errorf("%v in %q", err, rest)
		return
	}
	first := o.frames[0]
	if strings.HasPrefix(first, "event:") {
		r := e.Response
		if name != "event: response.failed" || e.Type != "response.failed" || e.Number != len(o.frames) || !strings.Contains(first, `"`+r.ID+`"`) || r.ID == "" ||
			r.Object != "response" || r.Status != "failed" || r.Model != "hermes-agent" || r.Output == nil || r.Error.Code != "server_error" || !strings.Contains(r.Error.Message, words) {
			t.Errorf("failed event %q", rest)
		}
		return
	}
	if named || e.Event != "run.failed" || !strings.Contains(first, `"`+e.RunID+`"`) || e.RunID == "" || e.Timestamp == 0 || !strings.Contains(e.Error, words) {
		t.Errorf("failed event %q", rest)
	}
}

// A killed backend is told of in the stream's own form, whatever the client
// speaks, and the client's connection ends well.
func TestOtherStreamsThatAreCut(t *testing.T) {
	streams := otherStreams(t)
	scripts := upstream.Router{}
	for kind, o := range streams {
		scripts[kind+" RST"] = func(x *upstream.Exchange) { o.begin(x); x.Pause(50 * time.Millisecond); x.Reset() }
		scripts[kind+" FIN"] = func(x *upstream.Exchange) { o.begin(x); x.Torn([]byte(o.last[:30])) }
		scripts[kind+" clean"] = func(x *upstream.Exchange) { o.begin(x); x.Chunk([]byte(o.last[:30])); x.End() }
		scripts[kind+" close"] = func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.Raw(strings.Join(o.frames, "\n\n") + "\n\n" + o.last[:30])
			x.Fin()
		}
		scripts[kind+" ended"] = func(x *upstream.Exchange) { o.begin(x); x.Frame(o.last); x.Torn(nil) }
	}
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	s := sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: upstream.New(t, scripts.Play).Addr, TLS: dir}}})
	for protocol, transport := range client.Protocols(t, pool) {
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				c := client.Over(t, transport, "https://"+listen)
				for how, words := range map[string]string{"RST": "connection to the agent was lost", "FIN": "connection to the agent was lost", "clean": "ended before", "close": "ended before"} {
					o.checkFailed(t, c.Post(o.Path(), "X-Play", kind+" "+how).All(), words)
				}
				if got, want := c.Post(o.Path(), "X-Play", kind+" ended").All(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
			})
		}
	}
	s.Terminate() // a stream is logged after its end
	s.Exit()
	told := map[any]int{}
	for _, e := range s.Log.Entries() {
		if o, ok := e["outcome"]; ok && e["completion_id"] != "" {
			told[o]++
		}
	}
	if told["upstream_aborted"] != 12 || told["upstream_incomplete"] != 12 {
		t.Errorf("outcomes in the log: %v", told)
	}
}

// A reload in the middle of them is not noticed; at the end of the process they
// fail before the grace period ends.
func TestOtherStreamsAcrossAReloadAndTheEnd(t *testing.T) {
	streams := otherStreams(t)
	dir, pool := client.Certificate(t)
	for protocol, transport := range client.Protocols(t, pool) {
		if protocol == "HTTP/3.0" {
			continue // Caddy's closes its connections (see TestReloadInEveryProtocol)
		}
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				rest := make(chan struct{})
				up := upstream.New(t, upstream.Router{
					"whole": func(x *upstream.Exchange) {
						o.begin(x)
						if x.Wait(rest) {
							x.Frame(o.last)
							x.End()
						}
					},
					"held": func(x *upstream.Exchange) { o.begin(x); x.Silence() },
				}.Play)
				conf := sidecar.Config{Admin: harness.FreePort(t), Grace: "1h", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"drain_timeout": "300ms"}}}}
				s := sidecar.Run(t, t.TempDir(), conf)
				c := client.Over(t, transport, "https://"+conf.Sites[0].Listen)
				live, held := c.Post(o.Path(), "X-Play", "whole"), c.Post(o.Path(), "X-Play", "held")
				start := make([]byte, len(o.frames[0]))
				if _, err := io.ReadFull(live.In, start); err != nil {
					t.Fatal(err)
				}
				next := conf
				next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"drain_timeout": "300ms", "progress": "off"}}}
				s.Load(next)
				close(rest)
				if got, want := string(start)+live.All(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
				s.Terminate()
				o.checkFailed(t, held.All(), "shutting down")
				s.Exit()
			})
		}
	}
}

// The client of one leaves, and takes upstream's request with it.
func TestClientOfAnotherStreamLeaves(t *testing.T) {
	for kind, o := range otherStreams(t) {
		t.Run(kind, func(t *testing.T) {
			gone := make(chan struct{})
			base, s := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) { o.begin(x); x.Silence(); close(gone) }), nil)
			r := client.New(t, base).Post(o.Path())
			if _, err := io.ReadFull(r.In, make([]byte, len(o.frames[0]))); err != nil {
				t.Fatal(err)
			}
			r.Leave()
			select {
			case <-gone:
			case <-time.After(harness.Patience):
				t.Error("upstream was never left")
			}
			s.Terminate()
			s.Exit()
			for _, e := range s.Log.Entries() {
				if e["level"] == "warn" && strings.Contains(fmt.Sprint(e["msg"]), "stream ended") {
					t.Errorf("logged: %v", e)
				}
			}
		})
	}
}
