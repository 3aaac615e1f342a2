package deployment

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

var composeDir = harness.Path("deploy/compose")

// composed reads compose.yaml as Docker Compose does, with the variables of .env.example
// and more.
func composed(t testing.TB, more ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(composeDir, "compose.yaml")},
		cli.WithWorkingDirectory(composeDir), cli.WithEnvFiles(filepath.Join(composeDir, ".env.example")), cli.WithDotEnv, cli.WithEnv(more))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(context.Background())
}

// compose.yaml is one that Docker Compose takes, and asks for every key.
func TestRecipeComposeIsValid(t *testing.T) {
	if _, err := composed(t, "API_SERVER_KEY=k", "WEBUI_SECRET_KEY=s"); err != nil {
		t.Error(err)
	}
	for _, missing := range []string{"API_SERVER_KEY", "WEBUI_SECRET_KEY"} {
		given := map[string]string{"API_SERVER_KEY": "WEBUI_SECRET_KEY=s", "WEBUI_SECRET_KEY": "API_SERVER_KEY=k"}[missing]
		if _, err := composed(t, given); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// What the page says of the services: who reaches whom, and what they may.
func TestRecipeComposeServices(t *testing.T) {
	p, err := composed(t, "API_SERVER_KEY=k", "WEBUI_SECRET_KEY=s")
	if err != nil {
		t.Fatal(err)
	}
	hermes, sidecar, webui := p.Services["hermes"], p.Services["sidecar"], p.Services["open-webui"]
	together := func(a, b types.ServiceConfig) (shared []string) {
		for n := range a.Networks {
			if _, ok := b.Networks[n]; ok {
				shared = append(shared, n)
			}
		}
		return shared
	}
	if len(hermes.Ports) != 0 || len(together(hermes, sidecar)) != 1 || len(together(hermes, webui)) != 0 || len(together(sidecar, webui)) != 1 {
		t.Errorf("networks %v %v %v, ports of the agent %v", hermes.Networks, sidecar.Networks, webui.Networks, hermes.Ports)
	}
	for name, s := range p.Services {
		if s.NetworkMode != "" || s.Privileged || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: network_mode %q, privileged %v, security_opt %v", name, s.NetworkMode, s.Privileged, s.SecurityOpt)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is published on %q", name, port.HostIP)
			}
		}
	}
	if !sidecar.ReadOnly || !slices.Equal(sidecar.CapDrop, []string{"ALL"}) || len(sidecar.CapAdd) != 0 || sidecar.User != "65532:65532" || sidecar.MemLimit == 0 {
		t.Errorf("the sidecar: %+v", sidecar)
	}
	if sidecar.DependsOn["hermes"].Condition != types.ServiceConditionHealthy || webui.DependsOn["sidecar"].Condition != types.ServiceConditionHealthy {
		t.Errorf("order: %v %v", sidecar.DependsOn, webui.DependsOn)
	}
	if !slices.Equal(sidecar.HealthCheck.Test, []string{"CMD", "/usr/bin/hermes-sidecar", "hermes-health"}) || hermes.HealthCheck == nil {
		t.Errorf("health: %v %v", sidecar.HealthCheck, hermes.HealthCheck)
	}

	// The parts fit together: addresses, the Caddyfile that is mounted, the times.
	value := func(s types.ServiceConfig, name string) string {
		v := s.Environment[name]
		if v == nil {
			t.Fatalf("%s has no %s", s.Name, name)
		}
		return *v
	}
	conf := fileRecipe(t, filepath.Join(composeDir, "Caddyfile"))
	base, err := url.Parse(value(webui, "OPENAI_API_BASE_URL"))
	if err != nil || base.Hostname() != sidecar.Name || !strings.Contains(conf.Text, "\n:"+base.Port()+" {\n") || base.Path != "/v1" {
		t.Errorf("Open WebUI asks %v: %v", base, err)
	}
	if got, want := value(sidecar, "HERMES_UPSTREAM"), hermes.Name+":"+value(hermes, "API_SERVER_PORT"); got != want {
		t.Errorf("the sidecar asks %s, want %s", got, want)
	}
	if value(webui, "OPENAI_API_KEY") != "k" || value(hermes, "API_SERVER_KEY") != "k" {
		t.Error("the key of clients is not the agent's")
	}
	for _, port := range sidecar.Ports {
		if !strings.Contains(conf.Text, "\n:"+port.Published+" {\n") || port.Published == "8644" {
			t.Errorf("port %s is published", port.Published)
		}
	}
	mounted := false
	for _, v := range sidecar.Volumes {
		if v.Target == "/etc/hermes-sidecar/Caddyfile" {
			info, err := os.Stat(v.Source)
			mounted = err == nil && info.Mode().IsRegular() && v.ReadOnly
		}
	}
	if !mounted {
		t.Errorf("the Caddyfile is not mounted: %v", sidecar.Volumes)
	}
	grace, err := time.ParseDuration(regexp.MustCompile(`grace_period (\S+)`).FindStringSubmatch(conf.Text)[1])
	if err != nil || time.Duration(*sidecar.StopGracePeriod) < grace+5*time.Second || grace < 15*time.Second {
		t.Errorf("stop_grace_period %v, grace_period %v (%v)", sidecar.StopGracePeriod, grace, err)
	}
}

// The sidecar's Caddyfile serves: repaired streams, a status line, its health, and
// no remote control.
func TestRecipeComposeCaddyfile(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	listen, health := harness.FreePort(t), harness.FreePort(t)
	d := fileRecipe(t, filepath.Join(composeDir, "Caddyfile")).With(":8643 {", ":"+harness.Port(listen)+" {").With(":8644 {", ":"+harness.Port(health)+" {").Caddy("HERMES_UPSTREAM=" + up.Addr)
	checkServed(t, "http://"+listen, "http://"+health)
	if body := client.New(t, "http://"+listen).Chat().All(); !strings.Contains(body, `"event":{"type":"status"`) {
		t.Errorf("no status line in %q", harness.Clip(body))
	}
	if !strings.Contains(d.Log.String(), "admin endpoint disabled") {
		t.Error("there is an admin endpoint")
	}
}

// fileRecipe reads a configuration that is a file of the repository.
func fileRecipe(t testing.TB, file string) sidecar.Recipe {
	t.Helper()
	return sidecar.NewRecipe(t, harness.ReadFile(t, file))
}
