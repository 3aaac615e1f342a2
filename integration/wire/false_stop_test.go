package wire

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Crashes that upstream dressed up as a stop end in the error finish.
func TestFalseStops(t *testing.T) {
	crashes := []string{
		// No text and no reasoning.
		"g0-v0.8.0/crash_immediate", "g1-v0.9.0/crash_immediate", "g2-v0.13.0/crash_immediate",
		"g0-v0.8.0/failed_result", "g1-v0.9.0/failed_result", "g2-v0.13.0/failed_result",
		"g0-v0.8.0/zero_usage_empty", "g3-v0.20.3/zero_usage_empty", "gm1-v0.6.0/crash_immediate",
		// It ends on a tool.
		"g0-v0.8.0/crash_in_tool", "g1-v0.9.0/crash_in_tool", "g2-v0.13.0/crash_in_tool",
	}
	// The same, with usage.
	empty := []string{
		"g0-v0.8.0/empty", "g0-v0.8.0/unstreamed", "g3-v0.20.3/empty", "live-g0-v0.8.0/empty", "live-g3-v0.20.0/empty",
		"agent-loop/g0-v0.8.0/fail_second_call", "agent-loop/g2-v0.13.0/fail_second_call",
		"live-g0-v0.8.0/err500second", "live-g2-v0.12.0/err500second",
	}
	scripts := upstream.Router{}
	for _, name := range append(crashes, empty...) {
		scripts[name] = upstream.Replay(hermes.Recorded(t, name), upstream.ByFrame)
	}
	up := upstream.New(t, scripts.Play)
	c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"zero_usage": "pass"})))
	for _, name := range crashes {
		t.Run(name, func(t *testing.T) {
			c.Of(t).Play(name).Answer().CheckError(t, "agent_crashed")
		})
	}
	passes := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"empty_answer": "pass"})))
	for _, name := range empty {
		t.Run(name, func(t *testing.T) {
			c.Of(t).Play(name).Answer().CheckError(t, "empty_answer")
			passes.Of(t).Play(name).Answer().CheckGood(t)
		})
	}
}

// Answers that look like a crash and are none pass, byte for byte.
func TestStopsThatAreNone(t *testing.T) {
	fine := []string{
		// A provider that reports no usage.
		"agent-loop/g0-v0.8.0/no_usage", "agent-loop/g2-v0.13.0/no_usage", "agent-loop/g3-v0.20.3/no_usage",
		"g0-v0.8.0/zero_usage_success", "g2-v0.13.0/zero_usage_success", "g3-v0.20.3/zero_usage_success",
		"live-g0-v0.8.0/nousage", "live-g3-v0.18.2/nousage",
	}
	for _, name := range fine {
		t.Run(name, func(t *testing.T) {
			r := hermes.Recorded(t, name)
			base, s := sidecar.Serve(t, upstream.New(t, upstream.Replay(r, upstream.ByFrame)), nil)
			if got := client.New(t, base).Chat().All(); got != string(r.Body) {
				t.Errorf("got\n%s\nwant\n%s", got, r.Body)
			}
			s.Terminate() // what is logged of a stream is logged behind its end
			s.Exit()
			if zero := strings.Contains(string(r.Body), `"total_tokens": 0`); zero != warned(s) {
				t.Errorf("a warning in the log: %v, want %v", warned(s), zero)
			}
		})
	}
	t.Run("an answer that ends on housekeeping", func(t *testing.T) {
		base, _ := sidecar.Serve(t, upstream.New(t, upstream.Replay(hermes.Recorded(t, "live-g0-v0.8.0/housekeep"), upstream.ByFrame)), nil)
		client.New(t, base).Chat().Answer().CheckGood(t)
	})
	t.Run("reasoning without text", func(t *testing.T) {
		base, _ := sidecar.Serve(t, upstream.New(t, upstream.Lines(hermes.One(hermes.Role), hermes.One(hermes.Delta("reasoning_content", "hm")), hermes.One(hermes.Finish("stop", 0)), hermes.One("data: [DONE]"))), nil)
		client.New(t, base).Chat().Answer().CheckGood(t)
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
	const session = "X-Hermes-Session-Id"
	ask := func(t *testing.T, name, members, id string, chunked bool) *strict.Answer {
		body := io.Reader(strings.NewReader(`{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"hi"}]` + members + `}`))
		if chunked {
			body = io.MultiReader(body) // of no known length
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Play", name)
		r.Header[session] = []string{id}
		res, err := client.New(t, base).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return client.NewReply(t, res, func() {}).Answer()
	}
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
			if a := ask(t, c.name, c.members, c.session, c.chunked); c.code == "" {
				a.CheckGood(t)
			} else {
				a.CheckError(t, c.code)
			}
		})
	}
}

// warned says that the handler has logged a warning.
func warned(s *sidecar.Process) bool {
	for _, e := range s.Log.Entries() {
		if e["level"] == "warn" {
			return true
		}
	}
	return false
}

// zero_usage decides about text with usage 0/0/0 when it is not left to
// knowledge.
func TestZeroUsageOption(t *testing.T) {
	scripts := upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame)
	up := upstream.New(t, scripts.Play)
	names := []string{"g0-v0.8.0/crash_after_text", "g2-v0.13.0/crash_after_text", "agent-loop/g0-v0.8.0/no_usage"}
	for _, value := range []string{"error", "pass"} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"zero_usage": value})))
		c.Play("g0-v0.8.0/plain").Answer().CheckGood(t) // now usage is known to be reported
		for _, name := range names {
			t.Run(value+" "+name, func(t *testing.T) {
				a := c.Of(t).Play(name).Answer()
				if value == "pass" {
					a.CheckGood(t)
				} else {
					a.CheckError(t, "agent_crashed")
				}
			})
		}
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
