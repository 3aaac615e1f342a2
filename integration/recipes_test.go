package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipePages is where the recipes are, and the pages beside them that have some.
var recipePages = path("docs/recipes/*.md")

// A recipe is a configuration of the documentation: a fenced block whose info
// string is a language and a name, such as "```caddyfile keys".
type recipe struct {
	t    testing.TB
	text string
}

// newRecipe is a configuration of its text.
func newRecipe(t testing.TB, text string) recipe { return recipe{t, text} }

var fence = regexp.MustCompile("(?ms)^```(\\S+)(?: (\\S+))?\n(.*?)^```$")

// recipeOf reads the recipe of a name.
func recipeOf(t testing.TB, name string) recipe {
	t.Helper()
	var found []string
	for _, page := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(page, -1) {
			if m[2] == name {
				found = append(found, m[3])
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d recipes are named %q", len(found), name)
	}
	return newRecipe(t, found[0])
}

// fileRecipe reads a configuration that is a file of the repository.
func fileRecipe(t testing.TB, file string) recipe {
	t.Helper()
	return newRecipe(t, read(t, file))
}

func pages(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(recipePages)
	if err != nil || len(names) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	var all []string
	for _, n := range names {
		all = append(all, read(t, n))
	}
	return all
}

// with is the recipe with new in every place of old, of which there is one at
// least: what a test replaces is to be seen, and is there.
func (r recipe) with(old, new string) recipe {
	r.t.Helper()
	if !strings.Contains(r.text, old) {
		r.t.Fatalf("the recipe has no %q:\n%s", old, r.text)
	}
	r.text = strings.ReplaceAll(r.text, old, new)
	return r
}

// A runningRecipe is a Caddy that runs a recipe.
type runningRecipe struct {
	*sidecar
	http, https string // addresses of the default ports
	home        string
}

// caddy runs a Caddyfile. All its sites listen on loopback, those without a port on
// two free ones instead of 80 and 443, and nothing is written outside of the test's
// directory.
func (r recipe) caddy(env ...string) *runningRecipe {
	r.t.Helper()
	d := &runningRecipe{http: freePort(r.t), https: freePort(r.t), home: r.t.TempDir()}
	global := "\tdefault_bind 127.0.0.1\n\tpersist_config off\n\tskip_install_trust\n\thttp_port " + port(d.http) + "\n\thttps_port " + port(d.https) + "\n"
	if !strings.Contains(r.text, "\n\tadmin ") {
		global += "\tadmin off\n"
	}
	text := "{\n" + global + "}\n" + r.text
	if at := regexp.MustCompile(`(?m)^\{\n`).FindStringIndex(r.text); at != nil {
		text = r.text[:at[1]] + global + r.text[at[1]:]
	}
	d.sidecar = runCaddyfile(r.t, d.home, text, env...)
	return d
}

// port is the port of an address.
func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// client speaks to a site of the recipe by its name, over HTTPS.
func (d *runningRecipe) client(t testing.TB, host string, pool *x509.CertPool) *client {
	return newTLSClient(t, host, d.https, pool)
}

// newTLSClient speaks HTTP/2 or HTTP/1.1 to addr, whatever host means elsewhere.
func newTLSClient(t testing.TB, host, addr string, pool *x509.CertPool) *client {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	c := clientOver(t, tr, "https://"+host)
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Every configuration on the pages has a name, and a test that runs it.
func TestEveryRecipeIsRun(t *testing.T) {
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, s := range sources {
		tests.WriteString(read(t, s))
	}
	n := 0
	for _, page := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(page, -1) {
			n++
			if m[2] == "" {
				t.Errorf("a configuration without a name:\n%s", m[3])
			} else if !strings.Contains(tests.String(), `recipeOf(t, "`+m[2]+`")`) {
				t.Errorf("no test runs %s", m[2])
			}
		}
	}
	if n < 4 {
		t.Errorf("found %d recipes only", n)
	}
}

// What the pages link to, within the repository, is there.
func TestLinksOfRecipesLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if _, err := os.Stat(filepath.Join(path("docs/recipes"), m[1])); err != nil {
				t.Errorf("a link leads to %s: %v", m[1], err)
			}
		}
	}
}
