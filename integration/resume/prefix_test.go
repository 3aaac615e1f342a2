package resume

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// says is a script that answers with a text.
func says(text string) upstream.Script {
	return func(x *upstream.Exchange) {
		x.Begin(text)
		x.Finish()
	}
}

// TestAgentsBelowPaths are apart, although each sees the same path: a key that was used
// for one is none of the other's, and neither is an id.
func TestAgentsBelowPaths(t *testing.T) {
	a, b := upstream.New(t, says("I am a")), upstream.New(t, says("I am b"))
	listen := harness.FreePort(t)
	below := func(prefix, addr string) string {
		return "handle_path " + prefix + "/* {\n\t\thermes_resume\n\t\thermes\n\t\treverse_proxy " + addr + "\n\t}\n\t"
	}
	sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin off", below("/a", a.Addr)+below("/b", b.Addr)))
	ofA, ofB := client.New(t, "http://"+listen+"/a"), client.New(t, "http://"+listen+"/b")
	first := ofA.Chat(key, "k")
	id := first.Header.Get(stream)
	whole := first.All()
	if got := ofB.Chat(key, "k").All(); !strings.Contains(got, "I am b") {
		t.Errorf("b says\n%s", got)
	}
	if r := ofB.Chat(behind, id+"/1"); r.StatusCode != http.StatusNotFound {
		t.Errorf("b: %s", r.Status)
	}
	if got := ofA.Get("/v1/chat/completions/" + id); got != whole {
		t.Errorf("a again:\n%s\nwant\n%s", got, whole)
	}
}

// TestSitesAreApart also if a client of one sends the Host of the other.
func TestSitesAreApart(t *testing.T) {
	a, b := upstream.New(t, says("I am a")), upstream.New(t, says("I am b"))
	atA, atB := harness.FreePort(t), harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site(":"+harness.Port(atA), "admin off", "hermes_resume\n\thermes\n\treverse_proxy "+a.Addr)+
		":"+harness.Port(atB)+" {\n\tbind 127.0.0.1\n\thermes_resume\n\thermes\n\treverse_proxy "+b.Addr+"\n}\n")
	first := client.New(t, "http://"+atA).Chat(key, "k")
	id := first.Header.Get(stream)
	first.All()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+atB+"/v1/chat/completions/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = atA
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("b: %s", res.Status)
	}
}
