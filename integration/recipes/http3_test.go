package recipes

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A client of HTTP/3 gets each event when it is sent, the error finish when the
// agent dies, and is missed when it leaves. Others are told where HTTP/3 is.
func TestRecipeHTTP3(t *testing.T) {
	scripts, gates := frontScripts(t)
	r, pool := certified(t, recipeOf(t, "http3"))
	d := r.With("127.0.0.1:8642", upstream.New(t, scripts.Play).Addr).Caddy()

	old := d.Client(t, "agent.example.com", pool).Play("g0-v0.8.0/one_tool")
	old.CheckRepaired(t)
	if got, want := old.Header.Get("Alt-Svc"), `h3=":`+harness.Port(d.HTTPS)+`"`; !strings.Contains(got, want) {
		t.Errorf("Alt-Svc %q, want %s", got, want)
	}

	tr := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true,
		Dial: func(ctx context.Context, _ string, tc *tls.Config, qc *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, d.HTTPS, tc, qc)
		},
	}
	t.Cleanup(func() { tr.Close() })
	c := client.Over(t, tr, "https://agent.example.com")
	live := c.Play("g0-v0.8.0/one_tool")
	if live.Proto != "HTTP/3.0" {
		t.Errorf("spoken is %s", live.Proto)
	}
	live.CheckRepaired(t)
	gates.frameByFrame(t, c)
	c.Play("reset").Answer().CheckError(t, "upstream_aborted")
	client.CheckJSON(t, c.Play("nothing"), http.StatusBadGateway, "127.0.0.1")

	live = c.Play("silent")
	live.Frame()
	live.Leave()
	select {
	case <-gates.gone:
	case <-time.After(harness.Patience):
		t.Error("the client has left, and the agent does not hear of it")
	}
}
