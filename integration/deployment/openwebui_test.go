package deployment

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/team"
	"sigs.k8s.io/yaml"
)

// teamSite runs the Caddyfile of deploy/open-webui in front of an agent, and returns the address of its health port.
// change may change it before.
func teamSite(t *testing.T, change func(r sidecar.Recipe) sidecar.Recipe) (s *team.Site, health string) {
	t.Helper()
	chat, api, health := harness.FreePort(t), harness.FreePort(t), harness.FreePort(t)
	s = &team.Site{Agent: hermes.New(t, 0), API: "http://" + api, Chat: "http://" + chat}
	change(fileRecipe(t, filepath.Join(composeDir, "Caddyfile")).
		With("http://:3000 {", "http://:"+harness.Port(chat)+" {").With(":8643 {", ":"+harness.Port(api)+" {").With(":8644 {", ":"+harness.Port(health)+" {")).
		Caddy("CHAT_URL="+s.Chat, "OPEN_WEBUI="+team.OpenWebUI(t), "KEY_OPENWEBUI="+team.WebUIKey, "HERMES_UPSTREAM="+s.Addr, "API_SERVER_KEY="+team.HermesKey)
	return s, "http://" + health
}

func asItIs(r sidecar.Recipe) sidecar.Recipe { return r }

// The Caddyfile of deploy/open-webui gives the users of an Open WebUI all that its comments say, together. With
// the real one: TestOpenWebUITeam in integration/clients.
func TestTeam(t *testing.T) {
	s, health := teamSite(t, asItIs)
	s.Check(t)
	checkHealthPort(t, health)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, _ := client.Get(t, c, strings.Replace(s.Chat, "127.0.0.1", "localhost", 1)+"/c/1")
	if res.StatusCode != http.StatusFound || res.Header.Get("Location") != s.Chat+"/c/1" {
		t.Errorf("by another name: %s to %q", res.Status, res.Header.Get("Location"))
	}
}

// A Hermes that sends nothing any more ends with an error.
func TestTeamStallTimeout(t *testing.T) {
	s, _ := teamSite(t, func(r sidecar.Recipe) sidecar.Recipe { return r.With("stall_timeout 30m", "stall_timeout 300ms") })
	s.Asks(t, team.Alice, "a chat", "slow: for ever").Answer(t, "").CheckError(t, "upstream_timeout")
}

// A site whose variables are not set admits nobody, or does not start.
func TestTeamWithoutKeys(t *testing.T) {
	chat, api := harness.FreePort(t), harness.FreePort(t)
	agent := hermes.New(t, 0)
	fileRecipe(t, filepath.Join(composeDir, "Caddyfile")).With("http://:3000 {", "http://:"+harness.Port(chat)+" {").
		With(":8643 {", ":"+harness.Port(api)+" {").With(":8644 {", ":"+harness.Port(harness.FreePort(t))+" {").
		Caddy("CHAT_URL=http://"+chat, "OPEN_WEBUI=127.0.0.1:1", "HERMES_UPSTREAM="+agent.Addr)
	for _, key := range []string{"", "Bearer", "Bearer "} {
		client.CheckJSON(t, client.New(t, "http://"+api).Chat("Authorization", key), http.StatusUnauthorized, "127.0.0.1")
	}
	if n := len(agent.Requests()); n != 0 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// The chart with values-open-webui.yaml gives the same users the same, behind an Ingress on the host of Open WebUI that
// leads to the page. That helm renders it: TestChartForOpenWebUI.
func TestTeamOnKubernetes(t *testing.T) {
	var values struct {
		Ingress struct{ Path string }
		Sidecar struct {
			Caddyfile string
			ExtraEnv  []struct{ Name string }
		}
	}
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, harness.Path("deploy/kubernetes/chart/values-open-webui.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	api, health, webui := harness.FreePort(t), harness.FreePort(t), team.OpenWebUI(t)
	to := func(addr string) http.Handler {
		return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	}
	ingress := http.NewServeMux()
	ingress.Handle(values.Ingress.Path+"/", to(api))
	ingress.Handle("/", to(webui))
	front := httptest.NewServer(ingress)
	t.Cleanup(front.Close)
	s := &team.Site{Agent: hermes.New(t, 0), API: "http://" + api, Chat: front.URL}
	env := map[string]string{"CHAT_URL": s.Chat, "OPEN_WEBUI": webui, "KEY_OPENWEBUI": team.WebUIKey, "API_SERVER_KEY": team.HermesKey}
	set := []string{"HERMES_UPSTREAM=" + s.Addr} // as the chart does
	for _, e := range values.Sidecar.ExtraEnv {
		set = append(set, e.Name+"="+env[e.Name])
	}
	sidecar.NewRecipe(t, values.Sidecar.Caddyfile).With("\n:8643 {", "\n:"+harness.Port(api)+" {").With("\n:8644 {", "\n:"+harness.Port(health)+" {").Caddy(set...)
	s.Check(t)
	for _, at := range []string{"http://" + health + "/healthz", s.API + "/health"} { // the probes
		if res, _ := client.Get(t, http.DefaultClient, at); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", at, res.Status)
		}
	}

	// What Open WebUI asks is answered alike.
	asks := func(text string) string {
		m := regexp.MustCompile(`(?ms)^\t@webui \{.*?^\}`).FindString(text)
		return regexp.MustCompile(`(\{\$\w+):[^}]*`).ReplaceAllString(m, "$1")
	}
	if mine, theirs := asks(values.Sidecar.Caddyfile), asks(fileRecipe(t, filepath.Join(composeDir, "Caddyfile")).Text); mine == "" || mine != theirs {
		t.Errorf("the chart has\n%s\nand Compose\n%s", mine, theirs)
	}
}
