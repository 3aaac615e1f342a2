package queue

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// TestNothingIsTaken: a client over HTTP/2 that lets the server send nothing is in nobody's way: what it
// is told while it waits does not leave, and Caddy ends it then.
func TestNothingIsTaken(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 0), site{queue: []string{"runs 1", "wait 1h"}})
	p.loadText(strings.Replace(p.caddyfile(p.caddy.Admin, p.lines), "servers {", "servers {\n\t\tprotocols h1 h2c\n\t\ttimeouts {\n\t\t\twrite_idle 2s\n\t\t}", 1))
	p.ask(chat, "holder", "slow-1")
	p.Until(t, "slow-1")
	conn := client.Dial(t, p.base)
	go io.Copy(io.Discard, conn)
	io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range 3 {
		var block strings.Builder
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", conn.RemoteAddr().String()}, {":path", "/v1/chat/completions"}, {"content-type", "application/json"}, {"authorization", "key"}} {
			encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		id := uint32(2*i + 1)
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true})
		framer.WriteData(id, true, []byte(`{"stream": true, "messages": [{"role": "user", "content": "takes nothing"}]}`))
	}
	p.untilWaiting(3)
	harness.Until(t, "they leave", func() bool { return p.metric("waiting") == 0 })
	p.End("slow-1")
	p.free(1)
	if p.Has("takes nothing") {
		t.Error("it runs")
	}
}
