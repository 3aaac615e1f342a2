package wire

import (
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

// A chat stream that needs no change keeps every byte, whatever its framing.
func TestFramingIsKept(t *testing.T) {
	chunks := []string{hermes.Role, hermes.Delta("content", "hi"), hermes.Delta("content", "\nthere `💻` and `ls`\n"), hermes.Finish("stop", 56), "data: [DONE]"}
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
		"text that only begins like a marker": strings.Join([]string{chunks[0], hermes.Delta("content", "a\n`💻"), hermes.Delta("content", " is"),
			hermes.Delta("content", " fun\nb"), chunks[3], chunks[4]}, "\n\n") + "\n\n",
		"no JSON":      "data: hello\n\n" + join("\n"),
		"a JSON array": "data: [1, 2]\n\n" + join("\n"),
		"UTF-8 instead of escapes": strings.Join([]string{chunks[0], `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"é 💻 \u00e9"},"index":0}]}`,
			chunks[3], chunks[4]}, "\n\n") + "\n\n",
		"unknown members": strings.Join([]string{`data: {"z":1,"object":"chat.completion.chunk","id":"a","choices":[{"index":0,"delta":{"content":"a","x":[1,{"y":null}]},"finish_reason":null}],"w":{"content":"b"}}`,
			chunks[3], chunks[4]}, "\n\n") + "\n\n",
	}
	scripts := upstream.Router{}
	for name, body := range bodies {
		scripts[name] = stream([]byte(body))
		scripts[name+" bytewise"] = func(x *upstream.Exchange) {
			x.Events()
			for _, p := range upstream.ByByte.Cut([]byte(body)) {
				x.Chunk(p)
			}
			x.End()
		}
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	for name, body := range bodies {
		for _, suffix := range []string{"", " bytewise"} {
			t.Run(name+suffix, func(t *testing.T) {
				if got := c.Of(t).Play(name + suffix).All(); got != body {
					t.Errorf("got\n%q\nwant\n%q", got, body)
				}
			})
		}
	}
}

// Markers are found in every framing.
func TestMarkersAreFoundInEveryFraming(t *testing.T) {
	chunks := []string{hermes.Role, hermes.Delta("content", "hi"), hermes.Delta("content", "\n`💻 ls`\n"), hermes.Delta("content", "\n\nok"), hermes.Finish("stop", 56), "data: [DONE]"}
	scripts := upstream.Router{}
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		scripts[name] = stream([]byte(strings.Join(chunks, end+end) + end + end))
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			// What the sidecar adds is framed by LF; the decoder wants LF alone.
			body := strings.ReplaceAll(strings.ReplaceAll(c.Of(t).Play(name).All(), "\r\n", "\n"), "\r", "\n")
			a := strict.Decode(t, body)
			a.CheckGood(t)
			if a.Content != "hi\n\nok" || len(a.Starts) != 1 {
				t.Errorf("content %q, starts %v", a.Content, a.Starts)
			}
		})
	}
}

// A frame above max_frame passes as it is, even if it has a marker.
func TestFrameAboveTheLimitPassesUnexamined(t *testing.T) {
	const limit = 2048
	big := hermes.Delta("content", "\n`💻 "+strings.Repeat("x", 2*limit)+"`\n")
	small := hermes.Delta("content", "\n`💻 "+strings.Repeat("x", limit/2)+"`\n")
	up := upstream.New(t, upstream.Lines(hermes.One(hermes.Role), hermes.One(small), hermes.One(big), hermes.One(hermes.Delta("content", "ok")), hermes.One(hermes.Finish("stop", 5)), hermes.One("data: [DONE]")))
	body := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"max_frame": limit})))).Chat().All()
	if !strings.Contains(body, big+"\n\n") {
		t.Errorf("the big frame has changed: %q", harness.Clip(body))
	}
	if strings.Contains(body, small) || len(strict.Decode(t, body).Starts) != 1 {
		t.Errorf("the small frame has not: %q", harness.Clip(body))
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
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
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
