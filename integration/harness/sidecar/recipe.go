package sidecar

import (
	"crypto/x509"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
)

// A Recipe is the text of a configuration that the documentation or the repository has.
type Recipe struct {
	t    testing.TB
	Text string
}

// NewRecipe returns a recipe of its text.
func NewRecipe(t testing.TB, text string) Recipe { return Recipe{t, text} }

// With returns the recipe with new in each place of old. If there is none the test fails.
func (r Recipe) With(old, new string) Recipe {
	r.t.Helper()
	if !strings.Contains(r.Text, old) {
		r.t.Fatalf("the recipe has no %q:\n%s", old, r.Text)
	}
	r.Text = strings.ReplaceAll(r.Text, old, new)
	return r
}

// A RunningRecipe is a sidecar that runs a recipe.
type RunningRecipe struct {
	*Process
	HTTP, HTTPS string // addresses of the default ports
	Home        string
}

// Caddy runs a recipe that is a Caddyfile. Its sites listen on the loopback interface, those
// without a port on two free ones instead of 80 and 443, and it writes nothing outside of
// the test's directory.
func (r Recipe) Caddy(env ...string) *RunningRecipe {
	r.t.Helper()
	d := &RunningRecipe{HTTP: harness.FreePort(r.t), HTTPS: harness.FreePort(r.t), Home: r.t.TempDir()}
	global := "\tdefault_bind 127.0.0.1\n\tpersist_config off\n\tskip_install_trust\n\thttp_port " + harness.Port(d.HTTP) + "\n\thttps_port " + harness.Port(d.HTTPS) + "\n"
	if !strings.Contains(r.Text, "\n\tadmin ") {
		global += "\tadmin off\n"
	}
	text := "{\n" + global + "}\n" + r.Text
	if at := regexp.MustCompile(`(?m)^\{\n`).FindStringIndex(r.Text); at != nil {
		text = r.Text[:at[1]] + global + r.Text[at[1]:]
	}
	d.Process = RunCaddyfile(r.t, d.Home, text, env...)
	return d
}

// Client returns a client of a site of the recipe, by its name and over HTTPS.
func (d *RunningRecipe) Client(t testing.TB, host string, pool *x509.CertPool) *client.Client {
	return client.NewTLS(t, host, d.HTTPS, pool)
}
