package integration

import (
	"bytes"
	"strings"
	"testing"
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
	scripts := router{}
	for _, name := range append(crashes, empty...) {
		scripts[name] = replay(recorded(t, name), byFrame)
	}
	up := newUpstream(t, scripts.play)
	c := newClient(t, first(serve(t, up, options{"zero_usage": "pass"})))
	for _, name := range crashes {
		t.Run(name, func(t *testing.T) {
			c.of(t).play(name).answer().checkError(t, "agent_crashed")
		})
	}
	passes := newClient(t, first(serve(t, up, options{"empty_answer": "pass"})))
	for _, name := range empty {
		t.Run(name, func(t *testing.T) {
			c.of(t).play(name).answer().checkError(t, "empty_answer")
			passes.of(t).play(name).answer().checkGood(t)
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
			r := recorded(t, name)
			base, s := serve(t, newUpstream(t, replay(r, byFrame)), nil)
			if got := newClient(t, base).chat().all(); got != string(r.body) {
				t.Errorf("got\n%s\nwant\n%s", got, r.body)
			}
			s.terminate() // what is logged of a stream is logged behind its end
			s.exit()
			if zero := strings.Contains(string(r.body), `"total_tokens": 0`); zero != warned(s) {
				t.Errorf("a warning in the log: %v, want %v", warned(s), zero)
			}
		})
	}
	t.Run("an answer that ends on housekeeping", func(t *testing.T) {
		base, _ := serve(t, newUpstream(t, replay(recorded(t, "live-g0-v0.8.0/housekeep"), byFrame)), nil)
		newClient(t, base).chat().answer().checkGood(t)
	})
	t.Run("reasoning without text", func(t *testing.T) {
		base, _ := serve(t, newUpstream(t, lines(one(role), one(delta("reasoning_content", "hm")), one(finish("stop", 0)), one("data: [DONE]"))), nil)
		newClient(t, base).chat().answer().checkGood(t)
	})
}

// warned says that the handler has logged a warning.
func warned(s *sidecar) bool {
	for _, e := range s.log.entries() {
		if e["level"] == "warn" {
			return true
		}
	}
	return false
}

// zero_usage decides about text with usage 0/0/0 when it is not left to
// knowledge.
func TestZeroUsageOption(t *testing.T) {
	scripts := library(recordings(t, chats), byFrame)
	up := newUpstream(t, scripts.play)
	names := []string{"g0-v0.8.0/crash_after_text", "g2-v0.13.0/crash_after_text", "agent-loop/g0-v0.8.0/no_usage"}
	for _, value := range []string{"error", "pass"} {
		c := newClient(t, first(serve(t, up, options{"zero_usage": value})))
		c.play("g0-v0.8.0/plain").answer().checkGood(t) // now usage is known to be reported
		for _, name := range names {
			t.Run(value+" "+name, func(t *testing.T) {
				a := c.of(t).play(name).answer()
				if value == "pass" {
					a.checkGood(t)
				} else {
					a.checkError(t, "agent_crashed")
				}
			})
		}
	}
}

// By default text with usage 0/0/0 is a crash once this upstream has reported
// usage for this model. A reload and a restart do not forget that.
func TestZeroUsageIsACrashOnceUsageIsKnown(t *testing.T) {
	crash, plain := recorded(t, "g0-v0.8.0/crash_after_text"), recorded(t, "g0-v0.8.0/plain")
	other := crash
	other.body = bytes.ReplaceAll(crash.body, []byte(`"hermes-agent"`), []byte(`"other-agent"`))
	scripts := router{"crash": replay(crash, byFrame), "plain": replay(plain, byFrame), "other model": replay(other, byFrame)}
	up, second := newUpstream(t, scripts.play), newUpstream(t, scripts.play)

	home := t.TempDir()
	conf := config{admin: freePort(t), sites: []site{
		{listen: freePort(t), upstream: up.addr}, {listen: freePort(t), upstream: second.addr},
	}}
	clients := func(t *testing.T) (c, elsewhere *client) {
		c, elsewhere = newClient(t, "http://"+conf.sites[0].listen), newClient(t, "http://"+conf.sites[1].listen)
		c.reloading, elsewhere.reloading = true, true
		return c, elsewhere
	}
	known := func(t *testing.T) {
		t.Helper()
		c, elsewhere := clients(t)
		c.play("crash").answer().checkError(t, "agent_crashed")
		c.play("other model").answer().checkGood(t)
		elsewhere.play("crash").answer().checkGood(t)
	}
	s := run(t, home, conf)
	t.Run("unknown", func(t *testing.T) {
		c, _ := clients(t)
		c.play("crash").answer().checkGood(t)
	})
	t.Run("known", func(t *testing.T) {
		c, _ := clients(t)
		c.play("plain").answer().checkGood(t)
		known(t)
	})
	t.Run("after a reload", func(t *testing.T) {
		conf.grace = "1m"
		s.load(conf)
		known(t)
	})
	t.Run("after a restart", func(t *testing.T) {
		s.terminate()
		s.exit()
		run(t, home, conf)
		known(t)
	})
}
