package integration

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A client of HTTP/3 gets each event when it is sent, the error finish when the
// agent dies, and is missed when it leaves. Others are told where HTTP/3 is.
func TestRecipeHTTP3(t *testing.T) {
	scripts, gates := frontScripts(t)
	r, pool := certified(t, recipeOf(t, "http3"))
	d := r.with("127.0.0.1:8642", newUpstream(t, scripts.play).addr).caddy()

	old := d.client(t, "agent.example.com", pool).play("g0-v0.8.0/one_tool")
	old.checkRepaired(t)
	if got, want := old.Header.Get("Alt-Svc"), `h3=":`+port(d.https)+`"`; !strings.Contains(got, want) {
		t.Errorf("Alt-Svc %q, want %s", got, want)
	}

	tr := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true,
		Dial: func(ctx context.Context, _ string, tc *tls.Config, qc *quic.Config) (*quic.Conn, error) {
			return quic.DialAddrEarly(ctx, d.https, tc, qc)
		},
	}
	t.Cleanup(func() { tr.Close() })
	c := clientOver(t, tr, "https://agent.example.com")
	live := c.play("g0-v0.8.0/one_tool")
	if live.Proto != "HTTP/3.0" {
		t.Errorf("spoken is %s", live.Proto)
	}
	live.checkRepaired(t)
	gates.frameByFrame(t, c)
	c.play("reset").answer().checkError(t, "upstream_aborted")
	checkJSON(t, c.play("nothing"), http.StatusBadGateway, "127.0.0.1")

	live = c.play("silent")
	live.frame()
	live.leave()
	select {
	case <-gates.gone:
	case <-time.After(patience):
		t.Error("the client has left, and the agent does not hear of it")
	}
}
