package wire

import (
	"strconv"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The same bytes come out, however the same bytes came in; and a second sidecar
// in front of the first changes nothing.
func TestOutputDoesNotDependOnTheCut(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	cutters := []upstream.Cutter{upstream.Whole, upstream.ByFrame, upstream.ByByte, upstream.AtRandom(1), upstream.AtRandom(2)}
	var scripts = upstream.Router{}
	for _, r := range all {
		for i, c := range cutters {
			scripts[r.String()+string(rune('0'+i))] = upstream.Replay(r, c)
		}
	}
	up := upstream.New(t, scripts.Play)
	// With zero_usage error every rule about ends is at work in any order.
	o := sidecar.Still.With(sidecar.Options{"zero_usage": "error"})
	base, _ := sidecar.Serve(t, up, o)
	c := client.New(t, base)
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			c := c.Of(t)
			want := c.Play(r.String() + "0").All()
			for i := 1; i < len(cutters); i++ {
				if got := c.Play(r.String() + string(rune('0'+i))).All(); got != want {
					t.Errorf("%s\n%s\nwhole\n%s", cutters[i].Name, got, want)
				}
			}
		})
	}
}

// Twice through the sidecar is once through it, in every form.
func TestTwiceThroughIsOnceThrough(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	scripts := upstream.Library(all, upstream.ByFrame)
	scripts["cut"] = func(x *upstream.Exchange) {
		x.Begin("hi", "\n`💻 ls`\n")
		x.Torn([]byte(hermes.Role[:9]))
	}
	scripts["reset after G2 start"] = func(x *upstream.Exchange) {
		x.Begin()
		x.Frame(hermes.Running("terminal", "c1")...)
		x.Reset()
	}
	scripts["no done"] = func(x *upstream.Exchange) {
		x.Events()
		x.Frame(hermes.Delta("content", "hi"))
		x.Frame(hermes.Finish("stop", 3))
		x.End()
	}
	names := []string{"cut", "reset after G2 start", "no done"}
	for _, r := range all {
		names = append(names, r.String())
	}
	up := upstream.New(t, scripts.Play)
	variants := map[string]sidecar.Options{
		"defaults":     {},
		"inline":       {"error_finish": "inline"},
		"status_line":  {"status_line": true},
		"cards":        {"cards": true},
		"bare":         {"progress": "bare"},
		"unnamed":      {"progress": "unnamed"},
		"comment":      {"progress": "comment"},
		"off":          {"progress": "off"},
		"usage errors": {"zero_usage": "error"},
		"kept":         {"imitations": "keep"},
		"trusted":      {"imitations": "trust"},
	}
	for variant, o := range variants {
		once, twice := harness.FreePort(t), harness.FreePort(t)
		if o["zero_usage"] == nil { // what is remembered of one upstream is not what is of the other
			o = o.With(sidecar.Options{"zero_usage": "pass"})
		}
		o = sidecar.Still.With(o)
		sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{
			{Listen: once, Upstream: up.Addr, Options: o}, {Listen: twice, Upstream: once, Options: o},
		}})
		for i, name := range names {
			if i%4 != 0 && variant != "defaults" && variant != "cards" { // these have the most to change
				continue
			}
			t.Run(variant+" "+name, func(t *testing.T) {
				want := client.New(t, "http://"+once).Play(name).All()
				if got := client.New(t, "http://"+twice).Play(name).All(); got != want {
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
		bodies[name] = hermes.Recorded(t, name).Body
	}
	up := upstream.New(t, func(x *upstream.Exchange) {
		at, _ := strconv.Atoi(x.Req.Header.Get("X-Cut"))
		x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
		x.Raw(string(bodies[x.Req.Header.Get("X-Play")][:at]))
		x.Fin()
	})
	once, twice := harness.FreePort(t), harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: once, Upstream: up.Addr, Options: sidecar.Still}, {Listen: twice, Upstream: once, Options: sidecar.Still}}})
	one, two := client.New(t, "http://"+once), client.New(t, "http://"+twice)
	for _, name := range names {
		for at := 0; at <= len(bodies[name]); at += 23 {
			r1, r2 := one.Play(name, "X-Cut", strconv.Itoa(at)), two.Play(name, "X-Cut", strconv.Itoa(at))
			if want, got := r1.All(), r2.All(); got != want || r1.StatusCode != r2.StatusCode {
				t.Errorf("%s at %d: twice %d\n%s\nonce %d\n%s", name, at, r2.StatusCode, got, r1.StatusCode, want)
			}
		}
	}
}
