package wire

import (
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// An answer that the sidecar examines has its version, which is that of its log; announce off leaves it out.
func TestExaminedAnswersHaveTheVersion(t *testing.T) {
	up, loud, quiet := upstream.New(t, upstream.Chat()), harness.FreePort(t), harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+
		sidecar.OnLoopback(loud)+"\thermes\n\treverse_proxy "+up.Addr+"\n}\n"+
		sidecar.OnLoopback(quiet)+"\thermes {\n\t\tannounce off\n\t}\n\treverse_proxy "+up.Addr+"\n}\n")
	started := regexp.MustCompile(`"msg":"hermes sidecar","version":"([^"]+)"`).FindStringSubmatch(s.Log.String())
	if started == nil {
		t.Fatalf("no version in\n%s", s.Log)
	}
	for listen, version := range map[string][]string{loud: started[1:], quiet: nil} {
		r := client.New(t, "http://"+listen).Chat()
		if got := r.Header.Values("X-Hermes-Sidecar"); !slices.Equal(got, version) || r.StatusCode != http.StatusOK {
			t.Errorf("%s, %q; want %q", r.Status, got, version)
		}
		r.All()
	}
}
