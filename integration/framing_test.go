package integration

import (
	"strings"
	"testing"
	"time"
)

// A chat stream that needs no change keeps every byte, whatever its framing.
func TestFramingIsKept(t *testing.T) {
	chunks := []string{role, delta("content", "hi"), delta("content", "\nthere `💻` and `ls`\n"), finish("stop", 56), "data: [DONE]"}
	join := func(end string) string { return strings.Join(chunks, end+end) + end + end }
	half := strings.Replace(chunks[1], `"choices"`, "\ndata: \"choices\"", 1) // JSON over two data lines
	bodies := map[string]string{
		"LF":              join("\n"),
		"CRLF":            join("\r\n"),
		"CR":              join("\r"),
		"a BOM":           "\ufeff" + join("\n"),
		"no space":        strings.ReplaceAll(join("\n"), "data: ", "data:"),
		"comments":        ": hello\n\n" + join("\n: in a frame\n") + "",
		"other fields":    "id: 1\nretry: 3000\nfoo: bar\nfoo\n" + join("\n"),
		"empty frames":    "\n\n\n" + join("\n"),
		"multi-line data": strings.Join([]string{chunks[0], half, chunks[3], chunks[4]}, "\n\n") + "\n\n",
		"an event name":   "event: message\n" + join("\n"),
		"text that only begins like a marker": strings.Join([]string{chunks[0], delta("content", "a\n`💻"), delta("content", " is"),
			delta("content", " fun\nb"), chunks[3], chunks[4]}, "\n\n") + "\n\n",
		"no JSON":      "data: hello\n\n" + join("\n"),
		"a JSON array": "data: [1, 2]\n\n" + join("\n"),
		"UTF-8 instead of escapes": strings.Join([]string{chunks[0], `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"é 💻 \u00e9"},"index":0}]}`,
			chunks[3], chunks[4]}, "\n\n") + "\n\n",
		"unknown members": strings.Join([]string{`data: {"z":1,"object":"chat.completion.chunk","id":"a","choices":[{"index":0,"delta":{"content":"a","x":[1,{"y":null}]},"finish_reason":null}],"w":{"content":"b"}}`,
			chunks[3], chunks[4]}, "\n\n") + "\n\n",
	}
	scripts := router{}
	for name, body := range bodies {
		scripts[name] = stream([]byte(body))
		scripts[name+" bytewise"] = func(x *exchange) {
			x.events()
			for _, p := range byByte.cut([]byte(body)) {
				x.chunk(p)
			}
			x.end()
		}
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still)))
	for name, body := range bodies {
		for _, suffix := range []string{"", " bytewise"} {
			t.Run(name+suffix, func(t *testing.T) {
				if got := c.of(t).play(name + suffix).all(); got != body {
					t.Errorf("got\n%q\nwant\n%q", got, body)
				}
			})
		}
	}
}

// Markers are found in every framing.
func TestMarkersAreFoundInEveryFraming(t *testing.T) {
	chunks := []string{role, delta("content", "hi"), delta("content", "\n`💻 ls`\n"), delta("content", "\n\nok"), finish("stop", 56), "data: [DONE]"}
	scripts := router{}
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		scripts[name] = stream([]byte(strings.Join(chunks, end+end) + end + end))
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			// What the sidecar adds is framed by LF; the decoder wants LF alone.
			body := strings.ReplaceAll(strings.ReplaceAll(c.of(t).play(name).all(), "\r\n", "\n"), "\r", "\n")
			a := decode(t, body)
			a.checkGood(t)
			if a.content != "hi\n\nok" || len(a.starts) != 1 {
				t.Errorf("content %q, starts %v", a.content, a.starts)
			}
		})
	}
}

// A frame above max_frame passes as it is, even if it has a marker.
func TestFrameAboveTheLimitPassesUnexamined(t *testing.T) {
	const limit = 2048
	big := delta("content", "\n`💻 "+strings.Repeat("x", 2*limit)+"`\n")
	small := delta("content", "\n`💻 "+strings.Repeat("x", limit/2)+"`\n")
	up := newUpstream(t, lines(one(role), one(small), one(big), one(delta("content", "ok")), one(finish("stop", 5)), one("data: [DONE]")))
	body := newClient(t, first(serve(t, up, still.with(options{"max_frame": limit})))).chat().all()
	if !strings.Contains(body, big+"\n\n") {
		t.Errorf("the big frame has changed: %q", clip(body))
	}
	if strings.Contains(body, small) || len(decode(t, body).starts) != 1 {
		t.Errorf("the small frame has not: %q", clip(body))
	}
}

// Each event leaves as soon as it is complete: upstream sends the next one when
// the client has the one before.
func TestEveryEventLeavesAtOnce(t *testing.T) {
	all := recordings(t, func(r recording) bool {
		return chats(r) && r.scenario != "model_imitates" && r.scenario != "emoji_all" && !strings.HasPrefix(r.scenario, "zero") && !strings.Contains(r.scenario, "think") &&
			r.String() != "live-g0-v0.8.0/plain" // a line of it begins with a backtick at the end of a frame
	})
	step := make(chan struct{})
	scripts, counts := router{}, map[string]int{}
	for _, r := range all {
		var frames []string
		for f := range strings.SplitAfterSeq(string(r.body), "\n\n") {
			// A finish that is none, and what is dropped, has no frame of its own.
			if f != "" && f != "data: [DONE]\n\n" && !strings.Contains(f, `"finish_reason": "`) {
				frames = append(frames, f)
			}
		}
		counts[r.String()] = len(frames)
		scripts[r.String()] = func(x *exchange) {
			x.raw(r.header)
			for _, f := range frames {
				x.chunk([]byte(f))
				if !x.wait(step) {
					return
				}
			}
			x.chunk([]byte(finish("stop", 5) + "\n\ndata: [DONE]\n\n"))
			x.end()
		}
	}
	c := newClient(t, first(serve(t, newUpstream(t, scripts.play), still)))
	for _, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			res := c.of(t).play(r.String())
			for range counts[r.String()] {
				for {
					e := res.frame()
					// What the sidecar infers comes beside upstream's frame.
					if e.chunk == nil || e.Status != "completed" || !r.legacy() {
						break
					}
				}
				select {
				case step <- struct{}{}:
				case <-time.After(patience):
					t.Fatal("upstream was left")
				}
			}
			if a := decode(t, res.all()); !a.done {
				t.Errorf("frames %v", a.names())
			}
		})
	}
}
