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

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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

// A recording that is cut anywhere ends in an error finish with all that was
// complete, in success if the finish chunk was complete, and in an HTTP error if
// nothing was.
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

// cutScript sends r up to the byte of the X-Cut header and ends as X-Mode says.
// Before a reset it waits until the client has what was complete: what a peer
// had not read when a reset came may be lost to it.
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

// complete reads what a cut at a byte leaves. A last frame that lacks only its
// blank line counts.
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
