// Package wire tests what the sidecar of the binary says: that docs/schema describes all of it, that it leaves in time,
// and what goes with requests and answers through Caddy's own handlers. What becomes of a stream, an answer and a
// history is tested in packages rewrite and proxy.
package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
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

// Early hints come through before the final header, and do not replace it.
func TestEarlyHints(t *testing.T) {
	for _, body := range []string{string(hermes.Recorded(t, "g0-v0.8.0/one_tool").Body), ""} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
			x.Header("103 Early Hints", "Link: </style.css>; rel=preload")
			if body == "" {
				upstream.AsJSON("200 OK", `{"ok":true}`)(x)
				return
			}
			x.Events()
			x.Chunk([]byte(body))
			x.End()
		}), nil)))
		var hints []int
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if h.Get("Link") != "" {
					hints = append(hints, code)
				}
				return nil
			},
		})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/chat/completions", strings.NewReader(client.Question))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if len(hints) != 1 || hints[0] != 103 || res.StatusCode != 200 || err != nil {
			t.Errorf("hints %v, %s, %v", hints, res.Status, err)
		}
		if body == "" && string(got) != `{"ok":true}` || body != "" && !strings.Contains(string(got), "hermes.tool.progress") {
			t.Errorf("body %q", got)
		}
	}
}

// Trailers arrive after a stream, foreign or repaired.
func TestTrailers(t *testing.T) {
	body := hermes.Recorded(t, "g0-v0.8.0/one_tool").Body
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events("Trailer: X-Checksum")
		x.Chunk(body)
		x.Raw("0\r\nX-Checksum: abc\r\n\r\n")
	}), nil)))
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		r := c.Post(path)
		r.All()
		if got := r.Trailer.Get("X-Checksum"); got != "abc" {
			t.Errorf("%s: trailer %q", path, got)
		}
	}
}

// An upgraded connection carries bytes both ways.
func TestUpgrade(t *testing.T) {
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Header("101 Switching Protocols", "Connection: Upgrade", "Upgrade: echo")
		io.Copy(x.Conn, x.In)
	}), nil)
	conn := client.Dial(t, base)
	fmt.Fprintf(conn, "GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v", res, err)
	}
	for _, ping := range []string{"hello\n", "data: {\"object\": \"chat.completion.chunk\"}\n"} {
		io.WriteString(conn, ping)
		if got, err := in.ReadString('\n'); got != ping || err != nil {
			t.Errorf("echo %q, %v", got, err)
		}
	}
}
