package integration

import (
	"strconv"
	"testing"
)

// The same bytes come out, however the same bytes came in; and a second sidecar
// in front of the first changes nothing.
func TestOutputDoesNotDependOnTheCut(t *testing.T) {
	all := recordings(t, chats)
	cutters := []cutter{whole, byFrame, byByte, atRandom(1), atRandom(2)}
	var scripts = router{}
	for _, r := range all {
		for i, c := range cutters {
			scripts[r.String()+string(rune('0'+i))] = replay(r, c)
		}
	}
	up := newUpstream(t, scripts.play)
	// With zero_usage error every rule about ends is at work in any order.
	o := still.with(options{"zero_usage": "error"})
	base, _ := serve(t, up, o)
	c := newClient(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			c := c.of(t)
			want := c.play(r.String() + "0").all()
			for i := 1; i < len(cutters); i++ {
				if got := c.play(r.String() + string(rune('0'+i))).all(); got != want {
					t.Errorf("%s\n%s\nwhole\n%s", cutters[i].name, got, want)
				}
			}
		})
	}
}

// Twice through the sidecar is once through it, in every form.
func TestTwiceThroughIsOnceThrough(t *testing.T) {
	all := recordings(t, chats)
	scripts := library(all, byFrame)
	scripts["cut"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(delta("content", "hi"))
		x.frame(delta("content", "\n`💻 ls`\n"))
		x.torn([]byte(role[:9]))
	}
	scripts["reset after G2 start"] = func(x *exchange) {
		x.events()
		x.frame(role)
		x.frame(running("terminal", "c1")...)
		x.reset()
	}
	scripts["no done"] = func(x *exchange) { x.events(); x.frame(delta("content", "hi")); x.frame(finish("stop", 3)); x.end() }
	names := []string{"cut", "reset after G2 start", "no done"}
	for _, r := range all {
		names = append(names, r.String())
	}
	up := newUpstream(t, scripts.play)
	variants := map[string]options{
		"defaults":     {},
		"inline":       {"error_finish": "inline"},
		"status_line":  {"status_line": true},
		"bare":         {"progress": "bare"},
		"unnamed":      {"progress": "unnamed"},
		"comment":      {"progress": "comment"},
		"off":          {"progress": "off"},
		"usage errors": {"zero_usage": "error"},
		"kept":         {"imitations": "keep"},
		"trusted":      {"imitations": "trust"},
	}
	for variant, o := range variants {
		once, twice := freePort(t), freePort(t)
		if o["zero_usage"] == nil { // what is remembered of one upstream is not what is of the other
			o = o.with(options{"zero_usage": "pass"})
		}
		o = still.with(o)
		run(t, t.TempDir(), config{sites: []site{
			{listen: once, upstream: up.addr, options: o}, {listen: twice, upstream: once, options: o},
		}})
		for _, name := range names {
			t.Run(variant+" "+name, func(t *testing.T) {
				want := newClient(t, "http://"+once).play(name).all()
				if got := newClient(t, "http://"+twice).play(name).all(); got != want {
					t.Errorf("twice\n%s\nonce\n%s", got, want)
				}
			})
		}
	}
}

// That is so for streams that are cut, too.
func TestTwiceThroughIsOnceThroughForCuts(t *testing.T) {
	names := []string{"g0-v0.8.0/parallel_tools", "g0-v0.8.0/model_imitates", "g1-v0.9.0/one_tool", "g2-v0.13.0/one_tool", "g3-v0.20.3/crash_in_tool"}
	bodies := map[string][]byte{}
	for _, name := range names {
		bodies[name] = recorded(t, name).body
	}
	up := newUpstream(t, func(x *exchange) {
		at, _ := strconv.Atoi(x.req.Header.Get("X-Cut"))
		x.header("200 OK", "Content-Type: text/event-stream", "Connection: close")
		x.raw(string(bodies[x.req.Header.Get("X-Play")][:at]))
		x.fin()
	})
	once, twice := freePort(t), freePort(t)
	run(t, t.TempDir(), config{sites: []site{{listen: once, upstream: up.addr, options: still}, {listen: twice, upstream: once, options: still}}})
	one, two := newClient(t, "http://"+once), newClient(t, "http://"+twice)
	for _, name := range names {
		for at := 0; at <= len(bodies[name]); at += 23 {
			r1, r2 := one.play(name, "X-Cut", strconv.Itoa(at)), two.play(name, "X-Cut", strconv.Itoa(at))
			if want, got := r1.all(), r2.all(); got != want || r1.StatusCode != r2.StatusCode {
				t.Errorf("%s at %d: twice %d\n%s\nonce %d\n%s", name, at, r2.StatusCode, got, r1.StatusCode, want)
			}
		}
	}
}
