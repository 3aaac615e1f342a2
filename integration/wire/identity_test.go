// Package wire tests what the sidecar changes in an answer, and in a request, and that it
// changes nothing else: docs/contract.md, section by section. Each file is a rule or the
// answers that it is about; recordings of all generations of Hermes are replayed in each.
//
// A corpus of other providers' streams is used if there is one in ../shared/corpus beside the checkout.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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

// The ways in which a stream is cut.
const (
	finInChunk = "FIN inside a chunk"
	byReset    = "reset"
	plainClose = "plain close" // without chunks: it looks like a clean end
)

// cutCode is the error code that a cut leads to.
var cutCode = map[string]string{finInChunk: "upstream_aborted", byReset: "upstream_aborted", plainClose: "upstream_incomplete"}

// wholeMarker is a G0 tool start: all of a delta's content.
var wholeMarker = regexp.MustCompile("(?s)\\A\n`([^\\s`]*[^\\s`[:ascii:]][^\\s`]*) (.*)`\n\\z")

// A recording that is cut anywhere ends in an error finish with all that was complete, in success if the
// finish chunk was complete, and in an HTTP error if nothing was.
func TestCutAnywhere(t *testing.T) {
	names := []string{"g0-v0.8.0/one_tool", "g0-v0.8.0/crash_in_tool", "g0-v0.8.0/parallel_tools", "g1-v0.9.0/one_tool",
		"g2-v0.13.0/one_tool", "g3-v0.20.3/one_tool", "g3-v0.20.3/crash_in_tool", "g0-v0.8.0/model_imitates"}
	step := 5
	if harness.RaceEnabled || testing.Short() {
		names, step = names[:2], 31
	}
	for _, name := range names {
		r := hermes.Recorded(t, name)
		acks := &sync.Map{} // of chan struct{}, by case
		up := upstream.New(t, cutScript(r, acks))
		base, _ := sidecar.Serve(t, up, sidecar.Still)
		for m, mode := range []string{finInChunk, byReset, plainClose} {
			if mode == byReset && r.Scenario == "model_imitates" {
				continue // its text is held: no client can say that it has come
			}
			t.Run(name+" "+mode, func(t *testing.T) {
				var next atomic.Int64
				var wg sync.WaitGroup
				const workers = 6
				c := client.New(t, base)
				for range workers {
					wg.Go(func() {
						for {
							at := int(next.Add(int64(step))) - step + m
							if at > len(r.Body) || t.Failed() {
								return
							}
							cutOnce(t, c, r, mode, at, acks)
						}
					})
				}
				wg.Wait()
				// No cut may cost the client its connection. Some more than there
				// are workers come of dials that a free connection overtook.
				cuts := next.Load() / int64(step)
				if n := c.Dials.Load(); n > max(5*workers, cuts/4) && !t.Failed() {
					t.Errorf("%d connections for %d cuts by %d workers", n, cuts, workers)
				}
			})
		}
	}
}

// cutScript sends r up to the byte of the X-Cut header and ends as X-Mode says. Before a reset it waits until
// the client has what was complete: what a peer had not read when a reset came may be lost to it.
func cutScript(r hermes.Recording, acks *sync.Map) upstream.Script {
	frames := bytes.SplitAfter(r.Body, []byte("\n\n"))
	return func(x *upstream.Exchange) {
		at, _ := strconv.Atoi(x.Req.Header.Get("X-Cut"))
		mode := x.Req.Header.Get("X-Mode")
		if mode == plainClose {
			x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.Raw(string(r.Body[:at]))
			x.Fin()
			return
		}
		x.Raw(r.Header)
		part := r.Body[:at]
		for _, f := range frames {
			if len(f) == 0 || len(part) < len(f) {
				break
			}
			x.Chunk(f)
			part = part[len(f):]
		}
		if mode == finInChunk {
			x.Torn(part)
			return
		}
		if ack, ok := acks.Load(x.Req.Header.Get("X-Case")); ok && !x.Wait(ack.(chan struct{})) {
			x.Fin()
			return
		}
		x.Chunk(part)
		x.Reset()
	}
}

// A prefix is what is complete of a recording that is cut.
type prefix struct {
	frames   int // complete frames
	content  string
	starts   int
	finish   string // of the finish chunk, if that is complete
	failed   bool   // upstream says so in it, or it is a false stop
	received int    // frames that a client can wait for while the stream is open
}

// complete reads what a cut at a byte leaves. A last frame that lacks only its blank line counts.
func complete(r hermes.Recording, at int) prefix {
	var p prefix
	cut := r.Body[:at]
	for len(cut) > 0 {
		frame, rest, whole := bytes.Cut(cut, []byte("\n\n"))
		cut = rest
		lines := strings.Split(strings.TrimSuffix(string(frame), "\n"), "\n")
		data, ok := strings.CutPrefix(lines[len(lines)-1], "data: ")
		if !whole && !(ok && json.Valid([]byte(data))) {
			break
		}
		p.frames++
		if whole {
			p.received++
		}
		var c strict.Chunk
		if json.Unmarshal([]byte(data), &c) != nil {
			continue // [DONE]
		}
		if c.Tool != "" {
			if c.Status != "completed" {
				p.starts++
			}
			continue
		}
		text := c.Choices[0].Delta.Content
		if r.Legacy() && wholeMarker.MatchString(text) {
			p.starts++
		} else {
			p.content += text
		}
		if p.finish = c.Choices[0].FinishReason; p.finish != "" {
			p.received-- // [DONE] may be held back with it, or not
			p.failed = p.finish == "error" || c.Usage.TotalTokens == 0
		}
	}
	if r.Scenario == "model_imitates" {
		p.content = strings.Replace(p.content, "`💻 ls -la`\n", "", 1)
	}
	return p
}

// cutOnce makes one request and checks its answer.
func cutOnce(t *testing.T, c *client.Client, r hermes.Recording, mode string, at int, acks *sync.Map) {
	id := fmt.Sprintf("%s %s %d", r, mode, at)
	want := complete(r, at)
	ack := make(chan struct{})
	acked := func() { close(ack) }
	if want.received > 0 && want.finish == "" && mode == byReset {
		acks.Store(id, ack)
		defer acks.Delete(id)
	} else {
		acked = func() {}
	}
	bad := func(format string, args ...any) {
		t.Errorf("cut at byte %d of %d: %s", at, len(r.Body), fmt.Sprintf(format, args...))
	}
	res, err := c.Try("/v1/chat/completions", "X-Cut", strconv.Itoa(at), "X-Mode", mode, "X-Case", id)
	if err != nil {
		bad("%v", err)
		return
	}
	defer res.Leave()
	if want.frames == 0 {
		body, err := io.ReadAll(res.In)
		var got struct{ Error strict.APIError }
		if json.Unmarshal(body, &got) != nil || err != nil || res.StatusCode != http.StatusBadGateway || got.Error.Code != cutCode[mode] {
			bad("%s: %q, %v; want 502 and code %s", res.Status, harness.Clip(string(body)), err, cutCode[mode])
		}
		return
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.In)
		bad("%s: %q", res.Status, harness.Clip(string(body)))
		return
	}
	var body strings.Builder
	for received := 0; ; {
		e, err := res.Next()
		body.WriteString(e.Raw)
		if err == io.EOF {
			break
		}
		if err != nil {
			bad("after %q: %v", harness.Clip(body.String()), err)
			return
		}
		// What the sidecar infers is no answer to a frame of upstream's.
		if e.Chunk == nil || e.Status != "completed" || !r.Legacy() {
			if received++; received == want.received {
				acked()
			}
		}
	}
	a := strict.Decode(t, body.String())
	a.CheckLifecycle(t)
	switch {
	case a.Content != want.content:
		bad("content %q, want %q", a.Content, want.content)
	case len(a.Starts) != want.starts:
		bad("%d tools, want %d", len(a.Starts), want.starts)
	case want.finish != "" && !want.failed:
		if a.Finish != want.finish || a.Err != nil || !a.Done {
			bad("a whole finish, but %v", a.Names())
		}
	default:
		code := cutCode[mode]
		if want.finish == "stop" {
			code = "agent_crashed"
		} else if want.finish != "" {
			code = "agent_error"
		}
		if a.Finish != "error" || a.Err == nil || a.Err.Code != code || !a.Done || a.Last.Hermes == nil {
			bad("frames %v, error %+v, want code %s", a.Names(), a.Err, code)
		} else if h := a.Last.Hermes; want.finish == "" && h.Partial != (strings.TrimSpace(a.Content) != "") {
			bad("partial %v with content %q", h.Partial, a.Content)
		}
	}
}

// Each event leaves as soon as it is complete: upstream sends the next one when
// the client has the one before.
func TestEveryEventLeavesAtOnce(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return hermes.Chats(r) && r.Scenario != "model_imitates" && r.Scenario != "emoji_all" && !strings.HasPrefix(r.Scenario, "zero") && !strings.Contains(r.Scenario, "think") &&
			r.String() != "live-g0-v0.8.0/plain" // a line of it begins with a backtick at the end of a frame
	})
	step := make(chan struct{})
	scripts, counts := upstream.Router{}, map[string]int{}
	for _, r := range all {
		var frames []string
		for f := range strings.SplitAfterSeq(string(r.Body), "\n\n") {
			// A finish that is none, and what is dropped, has no frame of its own.
			if f != "" && f != "data: [DONE]\n\n" && !strings.Contains(f, `"finish_reason": "`) {
				frames = append(frames, f)
			}
		}
		counts[r.String()] = len(frames)
		scripts[r.String()] = func(x *upstream.Exchange) {
			x.Raw(r.Header)
			for _, f := range frames {
				x.Chunk([]byte(f))
				if !x.Wait(step) {
					return
				}
			}
			x.Chunk([]byte(hermes.Finish("stop", 5) + "\n\ndata: [DONE]\n\n"))
			x.End()
		}
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still.With(sidecar.Options{"keepalive_form": "comment"}))))
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			res := c.Of(t).Play(r.String())
			for range counts[r.String()] {
				for {
					e := res.Frame()
					// What the sidecar infers comes beside upstream's frame.
					if e.Chunk == nil || e.Status != "completed" || !r.Legacy() {
						break
					}
				}
				select {
				case step <- struct{}{}:
				case <-time.After(harness.Patience):
					t.Fatal("upstream was left")
				}
			}
			if a := strict.Decode(t, res.All()); !a.Done {
				t.Errorf("frames %v", a.Names())
			}
		})
	}
}
