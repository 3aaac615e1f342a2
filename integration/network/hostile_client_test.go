package network

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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
