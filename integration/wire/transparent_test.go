// Package wire tests what the sidecar of the binary says: that docs/schema describes all of it, and what goes with
// requests and answers through Caddy's own handlers. What becomes of a stream, an answer and a history is tested in
// packages rewrite and proxy.
package wire

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Early hints come through Caddy before the final header, which they do not replace, and trailers after the body.
func TestEarlyHintsAndTrailers(t *testing.T) {
	const chat, other, foreign = "/v1/chat/completions", "/v1/other", "event: ping\ndata: {\"a\":1}\n\n"
	sent := map[string]string{chat: string(hermes.Recorded(t, "g0-v0.8.0/one_tool").Body), other: foreign}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Header("103 Early Hints", "Link: </style.css>; rel=preload")
		x.Events("Trailer: X-Checksum")
		x.Chunk([]byte(sent[x.Req.URL.Path]))
		x.Raw("0\r\nX-Checksum: abc\r\n\r\n")
	}), nil)))
	for path, body := range sent {
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h.Get("Link")))
				return nil
			},
		})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+path, strings.NewReader(client.Question))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got := client.NewReply(t, res, func() {}).All()
		if (got == body) != (path == other) || res.StatusCode != http.StatusOK || res.Header.Get("Link") != "" {
			t.Errorf("%s: %s, header %v, %q", path, res.Status, res.Header, got)
		}
		if trailer := res.Trailer.Get("X-Checksum"); trailer != "abc" || !slices.Equal(hints, []string{"103</style.css>; rel=preload"}) {
			t.Errorf("%s: hints %q, trailer %q", path, hints, trailer)
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
