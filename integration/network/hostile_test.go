package network

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// What a stream holds in memory is bounded, whatever upstream sends.
func TestMemoryIsBounded(t *testing.T) {
	sidecar.NeedsMemory(t)
	const size, limit = 64 << 20, 24 << 20
	repeat := func(part string) upstream.Script {
		block := []byte(strings.Repeat(part, 1+(64<<10)/len(part)))
		return func(x *upstream.Exchange) {
			x.Begin()
			for n := 0; n < size; n += len(block) {
				x.Chunk(block)
			}
			x.Fin()
		}
	}
	counted := func(part func(i int) []string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Begin()
			var b strings.Builder
			for i, n := 0, 0; n < size; i++ {
				b.WriteString(strings.Join(part(i), "\n") + "\n\n")
				if b.Len() > 64<<10 {
					x.Chunk([]byte(b.String()))
					n += b.Len()
					b.Reset()
				}
			}
			x.Fin()
		}
	}
	hostile := map[string]upstream.Script{
		"a frame that never ends":   repeat("data: " + strings.Repeat("x", 1000)),
		"a line that never ends":    repeat("x"),
		"a comment that never ends": repeat(": " + strings.Repeat("y", 1000)),
		"a frame of endless lines":  repeat("data: x\n"),
		"text that is held":         counted(func(int) []string { return hermes.One(hermes.Delta("content", "`💻 "+strings.Repeat("x", 3000))) }),
		"tools without end":         counted(func(i int) []string { return hermes.Running("terminal", "call_"+strconv.Itoa(i)) }),
		"markers without end":       counted(func(i int) []string { return hermes.One(hermes.Delta("content", "\n`💻 "+strconv.Itoa(i)+"`\n")) }),
		"a tag that may close":      counted(closingTagWithoutEnd()),
		"an answer without end": func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: application/json", "Connection: close")
			x.Raw(`{"object": "chat.completion", "choices": [{"message": {"content": "`)
			for n := 0; n < size; n += 64 << 10 {
				x.Raw(strings.Repeat("x", 64<<10))
			}
			x.Fin()
		},
		"a compressed stream without end": func(x *upstream.Exchange) {
			x.Events("Content-Encoding: gzip")
			for n := 0; n < size; n += 64 << 10 {
				x.Chunk(make([]byte, 64<<10))
			}
			x.End()
		},
		"choices without end": counted(func(i int) []string {
			return hermes.One("data: " + hermes.Envelope + fmt.Sprintf(`"choices": [{"index": %d, "delta": {"content": "a"}, "finish_reason": null}]}`, i))
		}),
	}
	for name, play := range hostile {
		t.Run(name, func(t *testing.T) {
			base, s := sidecar.ServeFrugally(t, upstream.New(t, play), sidecar.Still)
			check := sidecar.LimitGrowth(t, s, limit)
			drain(t, base)
			check(fmt.Sprintf("%d MiB of upstream's", size>>20))
		})
	}
}

// drain asks, and returns how long the answer is. It does not look at the frames, which are too
// many for a schema.
func drain(t *testing.T, base string) int64 {
	t.Helper()
	res, err := client.New(t, base).HTTP.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(client.Question))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		t.Errorf("after %d bytes: %v", n, err)
	}
	return n
}

// A frame that becomes many is bounded, written at once, and forgotten: of all that
// have come no more stays than of one.
func TestFramesThatBecomeLongerAreForgotten(t *testing.T) {
	sidecar.NeedsMemory(t)
	const frames, limit = 32, 56 << 20
	frame := hermes.Delta("content", strings.Repeat("\n\n<think>a</think>b", 20000))
	base, s := sidecar.ServeFrugally(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		for range frames {
			x.Frame(frame)
		}
		x.Fin()
	}), sidecar.Still)
	check := sidecar.LimitGrowth(t, s, limit)
	n := drain(t, base)
	if most := int64(3*len(frame) + 256<<10); n > frames*most || n < frames*int64(len(frame)) {
		t.Errorf("%d bytes", n)
	}
	check(fmt.Sprintf("%d KiB of upstream's, which became %d MiB,", frames*len(frame)>>10, n>>20))
}

// closingTagWithoutEnd is reasoning, in a fence, whose closing tag is followed by
// carriage returns, each of which may belong to a newline.
func closingTagWithoutEnd() func(i int) []string {
	first, more := hermes.One(hermes.Delta("content", "<think>```\n</think>")), hermes.One(hermes.Delta("content", strings.Repeat("\r", 3000)))
	return func(i int) []string {
		if i == 0 {
			return first
		}
		return more
	}
}

// A header that is too long is refused before anybody is asked.
func TestLongRequestHeadersAreRefused(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/plain"), upstream.ByFrame))
	base, _ := sidecar.Serve(t, up, nil)
	conn := client.Dial(t, base)
	go fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", res, err)
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// A request that goes on without end takes max_request of memory, and twice that
// while its buffer grows.
func TestEndlessRequestsAreNotHeld(t *testing.T) {
	sidecar.NeedsMemory(t)
	const size, limit = 64 << 20, 16 << 20
	up := upstream.New(t, upstream.AsJSON("200 OK", "{}"))
	base, s := sidecar.ServeFrugally(t, up, sidecar.Options{"max_request": 1 << 20})
	check := sidecar.LimitGrowth(t, s, limit)
	conn := client.Dial(t, base)
	go func() {
		io.WriteString(conn, client.ChunkedHead+"1\r\n{\r\n")
		block := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
		for n := 0; n < size; n += 64 << 10 {
			if _, err := io.WriteString(conn, block); err != nil {
				return
			}
		}
		io.WriteString(conn, "0\r\n\r\n")
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	check(fmt.Sprintf("%d MiB of a request", size>>20))
}

// A client that does not read what it has asked for stops upstream, takes no
// memory, and is cut after write_idle; upstream's request ends with it.
func TestClientThatDoesNotReadIsCut(t *testing.T) {
	sidecar.NeedsMemory(t)
	const limit = 24 << 20
	left := make(chan int, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		big := []byte(hermes.Delta("content", strings.Repeat("x", 64<<10)) + "\n\n")
		sent := 0
		for ; sent < 1<<30; sent += len(big) {
			if _, err := fmt.Fprintf(x.Conn, "%x\r\n%s\r\n", len(big), big); err != nil {
				break
			}
		}
		left <- sent
		x.Fin()
	})
	listen := harness.FreePort(t)
	d := sidecar.NewRecipe(t, "{\n\tservers {\n\t\ttimeouts {\n\t\t\twrite_idle 500ms\n\t\t}\n\t}\n}\n:"+harness.Port(listen)+" {\n\thermes\n\treverse_proxy "+up.Addr+"\n}\n").Caddy()
	check := sidecar.LimitGrowth(t, d.Process, limit)
	conn := client.Dial(t, "http://"+listen)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(client.Question), client.Question)
	select {
	case sent := <-left:
		if sent >= 1<<30 {
			t.Error("upstream was never stopped")
		}
		t.Logf("cut after %d MiB", sent>>20)
	case <-time.After(harness.Patience):
		t.Fatal("upstream's request goes on")
	}
	check("the answer")
}

// A header of upstream's that does not end is an error, before it fills the
// memory.
func TestEndlessHeadersOfUpstreamAreAnError(t *testing.T) {
	sidecar.NeedsMemory(t)
	const limit = 64 << 20
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
		block := strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 64)
		for range 4096 {
			if _, err := io.WriteString(x.Conn, block); err != nil {
				break
			}
		}
		x.Fin()
	})
	base, s := sidecar.ServeFrugally(t, up, nil)
	check := sidecar.LimitGrowth(t, s, limit)
	client.CheckJSON(t, client.New(t, base).Chat(), http.StatusBadGateway, up.Addr)
	check("the header")
}

// A client that leaves takes upstream's request with it, whenever it leaves and
// whatever it speaks. Nothing else would before patience ends: no keepalive finds
// out, and no timeout.
func TestClientGone(t *testing.T) {
	type moment struct {
		play  upstream.Script
		reads int // frames that the client reads before it leaves
	}
	moments := map[string]moment{
		"before the header":     {(*upstream.Exchange).Silence, 0},
		"before the first byte": {func(x *upstream.Exchange) { x.Events(); x.Silence() }, 0},
		"mid-stream": {func(x *upstream.Exchange) {
			x.Events()
			for range 100 {
				x.Frame(hermes.Delta("content", "a"))
				x.Pause(5 * time.Millisecond)
			}
		}, 3},
		"in silence": {func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Silence()
		}, 2},
		"while a tool runs": {func(x *upstream.Exchange) { x.Events(); x.Frame(hermes.Delta("content", "\n`💻 ls`\n")); x.Silence() }, 1},
	}
	asked, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		asked <- struct{}{}
		moments[x.Req.Header.Get("X-Play")].play(x)
		x.Silence()
		gone <- struct{}{}
	})
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"keepalive": 0, "idle_timeout": 0}}}})
	for protocol, transport := range client.Protocols(t, pool) {
		for name, m := range moments {
			t.Run(protocol+" "+name, func(t *testing.T) {
				abandon(t, client.Over(t, transport, "https://"+listen), protocol, name, m.reads, asked)
				select {
				case <-gone:
				case <-time.After(harness.Patience / 2):
					t.Fatal("upstream was never left")
				}
			})
		}
	}
}

// abandon sends a request, reads some frames of the answer and leaves.
func abandon(t testing.TB, c *client.Client, protocol, name string, reads int, asked <-chan struct{}) {
	t.Helper()
	if reads > 0 {
		r := c.Play(name)
		<-asked
		for range reads {
			r.Frame()
		}
		if r.Proto != protocol {
			t.Errorf("spoken was %s", r.Proto)
		}
		r.Leave()
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), harness.Patience)
	defer stop()
	go func() {
		<-asked
		stop()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/chat/completions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Play", name)
	if res, err := c.Do(req); err == nil {
		t.Errorf("an answer before the first byte: %s", res.Status)
		res.Body.Close()
	}
}
