package resume

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestRedisOverTLS has replicas share streams over TLS, with the certificates of a CA that the
// system does not know. A replica that is not told of it does not trust the server.
func TestRedisOverTLS(t *testing.T) {
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("hi")
		x.Finish()
	})
	dir, _ := client.Certificate(t)
	r := startRedis(t, "--tls-cert-file", dir+"/cert.pem", "--tls-key-file", dir+"/key.pem",
		"--tls-ca-cert-file", dir+"/cert.pem", "--tls-auth-clients", "no")
	r.options = "tls " + dir + "/cert.pem"
	all, _ := r.replicas(t, up, 2)
	all = balanced(all)
	first := ask(all[0], "one")
	whole := first.All()
	again := ask(all[1], "one")
	if got := again.All(); got != whole || again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(whole, "[DONE]") {
		t.Errorf("at the other replica it is %q, %v, want %q", got, again.Header, whole)
	}

	r.options = "tls"
	all, processes := r.replicas(t, up, 1)
	if passed := ask(all[0], "one"); passed.Header.Get(stream) != "" || !strings.Contains(passed.All(), "[DONE]") {
		t.Errorf("a server that is not trusted has %v", passed.Header)
	}
	if log := processes[0].Log.String(); !strings.Contains(log, "redis fails") || !strings.Contains(log, "certificate") {
		t.Error("the log does not say why")
	}
}
