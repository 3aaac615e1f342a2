package resumecaddy

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

// TestTransportInACaddyfile has its own options and those of the transport http.
func TestTransportInACaddyfile(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `{"protocol":"hermes_resume"}`,
		"resume_for 30s\ndetach":      `{"detach":true,"protocol":"hermes_resume","resume_for":30000000000}`,
		"keepalive 4s\nresume_for 2m": `{"keep_alive":{"idle_timeout":4000000000},"protocol":"hermes_resume","resume_for":120000000000}`,
		"tls\ndial_timeout 1s":        `{"dial_timeout":1000000000,"protocol":"hermes_resume","tls":{}}`,
		"resume_for 1ms":              "error: invalid resume_for",
		"resume_for":                  "error: wrong argument count",
		"detach now":                  "error: wrong argument count",
		"keep_forever":                "error: unrecognized",
	} {
		var h reverseproxy.Handler
		d := caddyfile.NewTestDispenser("reverse_proxy 127.0.0.1:1 {\n transport hermes_resume {\n" + text + "\n}\n}")
		got := ""
		if err := h.UnmarshalCaddyfile(d); err != nil {
			got = "error: " + err.Error()
		} else {
			got = string(h.TransportRaw)
		}
		if got != want && (!strings.HasPrefix(want, "error: ") || !strings.Contains(strings.ToLower(got), want[len("error: "):])) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	var h reverseproxy.Handler // TLS is switched on by the scheme of the upstream
	if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("reverse_proxy https://site {\n transport hermes_resume\n}")); err != nil || !strings.Contains(string(h.TransportRaw), `"tls":{}`) {
		t.Errorf("%v, %s", err, h.TransportRaw)
	}
}
