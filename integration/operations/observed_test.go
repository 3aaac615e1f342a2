package operations

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A watched is a sidecar with all that an operator looks at.
type watched struct {
	*sidecar.Process
	*client.Client
	t    testing.TB
	up   *upstream.Server
	site string // host:port of the site
}

// watch starts a sidecar of a Caddyfile with an admin endpoint: a site in front of
// up with directives, and the directive metrics at /metrics. global are options.
func watch(t testing.TB, up *upstream.Server, global, directives string, env ...string) *watched {
	t.Helper()
	w := &watched{t: t, up: up, site: harness.FreePort(t)}
	w.Client = client.New(t, "http://"+w.site)
	w.Client.Reloading = true
	admin := harness.FreePort(t)
	w.Process = sidecar.RunCaddyfile(t, t.TempDir(), w.caddyfile(admin, global, directives), env...)
	w.Admin = admin
	return w
}

func (w *watched) caddyfile(admin, global, directives string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\t%s\n}\n%s\tmetrics /metrics\n\t%s\n\treverse_proxy %s {\n\t\ttransport http {\n\t\t\tkeepalive off\n\t\t}\n\t}\n}\n",
		admin, global, sidecar.OnLoopback(w.site), directives, w.up.Addr)
}

// reload loads a Caddyfile with other directives, and returns what the admin
// endpoint has answered when that was an error.
func (w *watched) reload(directives string) (failed string) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		var res *http.Response
		if res, err = http.Post("http://"+w.Admin+"/load", "text/caddyfile", strings.NewReader(w.caddyfile(w.Admin, "", directives))); err != nil {
			continue // the admin server of a reload just before
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return string(body)
		}
		return ""
	}
	w.t.Fatal(err)
	return ""
}

// get is a GET that must be answered with the status.
func (w *watched) get(url string, status int, headers ...string) (*http.Response, string) {
	w.t.Helper()
	res, body := client.Get(w.t, http.DefaultClient, url, headers...)
	if res.StatusCode != status {
		w.t.Fatalf("%s: %s, want %d: %s", url, res.Status, status, harness.Clip(body))
	}
	return res, body
}

// scrape reads the metrics that the site exposes.
func (w *watched) scrape() metrics.Families {
	w.t.Helper()
	return metrics.Scrape(w.t, "http://"+w.site+"/metrics")
}
