package deployment

import (
	"context"
	"fmt"
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
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

var composeDir = harness.Path("deploy/open-webui")

// composed reads compose.yaml as Docker Compose does, with the variables of .env.example
// and more.
func composed(t testing.TB, more ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(composeDir, "compose.yaml")},
		cli.WithWorkingDirectory(composeDir), cli.WithEnvFiles(filepath.Join(composeDir, ".env.example")), cli.WithDotEnv, cli.WithEnv(more), cli.WithDefaultProfiles())
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(context.Background())
}

// filled are the variables that .env.example leaves to its reader.
var filled = []string{"API_SERVER_KEY=a", "KEY_OPENWEBUI=k", "WEBUI_SECRET_KEY=s"}

// compose.yaml is one that Docker Compose takes, and asks for every key.
func TestRecipeComposeIsValid(t *testing.T) {
	if _, err := composed(t, filled...); err != nil {
		t.Error(err)
	}
	for i, missing := range filled {
		name, _, _ := strings.Cut(missing, "=")
		if _, err := composed(t, slices.Delete(slices.Clone(filled), i, i+1)...); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "see .env.example") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for name, want := range map[string]bool{"COMPOSE_PROFILES=agent": true, "COMPOSE_PROFILES=": false} {
		p, err := composed(t, append(filled, name)...)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Services["hermes"]; ok != want {
			t.Errorf("%s: Hermes is started: %v", name, ok)
		}
	}
}

// What the page says of the services: who reaches whom, and what they may.
func TestRecipeComposeServices(t *testing.T) {
	p, err := composed(t, filled...)
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
		if len(s.Ports) > 0 != (name == "sidecar") {
			t.Errorf("%s has the ports %v", name, s.Ports)
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
	base, err := url.Parse(value(webui, "OPENAI_API_BASE_URLS"))
	if err != nil || base.Hostname() != sidecar.Name || !strings.Contains(conf.Text, "\n:"+base.Port()+" {\n") || base.Path != "/v1" {
		t.Errorf("Open WebUI asks %v: %v", base, err)
	}
	if got, want := value(sidecar, "HERMES_UPSTREAM"), hermes.Name+":"+value(hermes, "API_SERVER_PORT"); got != want {
		t.Errorf("the sidecar asks %s, want %s", got, want)
	}
	if value(webui, "OPENAI_API_KEYS") != "k" || value(sidecar, "KEY_OPENWEBUI") != "k" || value(hermes, "API_SERVER_KEY") != "a" || value(sidecar, "API_SERVER_KEY") != "a" || webui.Environment["API_SERVER_KEY"] != nil {
		t.Error("who has which key")
	}
	for variable := range webUISettings {
		if got := value(webui, variable); got != webUISettings[variable] {
			t.Errorf("%s of Open WebUI is %q", variable, got)
		}
	}
	chat, err := url.Parse(value(sidecar, "CHAT_URL"))
	if err != nil || value(webui, "WEBUI_URL") != chat.String() || value(webui, "CORS_ALLOW_ORIGIN") != chat.String() || value(sidecar, "OPEN_WEBUI") != webui.Name+":8080" {
		t.Errorf("users open %v, Open WebUI says %s: %v", chat, value(webui, "WEBUI_URL"), err)
	}
	// Each variable of the Caddyfile has a value.
	for _, m := range regexp.MustCompile(`\{\$(\w+)`).FindAllStringSubmatch(conf.Text, -1) {
		value(sidecar, m[1])
	}
	if port := sidecar.Ports[0]; len(sidecar.Ports) != 1 || port.HostIP != "127.0.0.1" || port.Published != chat.Port() || fmt.Sprint(port.Target) != chat.Port() {
		t.Errorf("published is %v", sidecar.Ports)
	}
	if p, err := composed(t, append(filled, "PUBLISH=443:443", "CHAT_URL=https://chat.example.com")...); err != nil || p.Services["sidecar"].Ports[0].Published != "443" {
		t.Errorf("with a name of its own: %v", err)
	}
	if !slices.Equal(sidecar.ExtraHosts["host.docker.internal"], []string{"host-gateway"}) {
		t.Errorf("a Hermes on the host is at %v", sidecar.ExtraHosts)
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

// webUISettings are those with which Open WebUI fits the Caddyfile. TestOpenWebUITeam, in integration/clients, runs
// it with them.
var webUISettings = map[string]string{
	"ENABLE_OLLAMA_API": "false", "ENABLE_FORWARD_USER_INFO_HEADERS": "true", "BYPASS_MODEL_ACCESS_CONTROL": "true",
	"ENABLE_TITLE_GENERATION": "false", "ENABLE_TAGS_GENERATION": "false", "ENABLE_FOLLOW_UP_GENERATION": "false",
}

// fileRecipe reads a configuration that is a file of the repository.
func fileRecipe(t testing.TB, file string) sidecar.Recipe {
	t.Helper()
	return sidecar.NewRecipe(t, harness.ReadFile(t, file))
}
