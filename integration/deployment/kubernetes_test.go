package deployment

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manifests is where the manifests are. That they are right as such, and that
// the ConfigMap has this Caddyfile, tests the package kubernetes.
var manifests = harness.Path("deploy/kubernetes")

// podOf returns the pod of a Deployment, or of a part of one.
func podOf(t *testing.T, manifest []byte) core.PodSpec {
	t.Helper()
	var d apps.Deployment
	if err := yaml.Unmarshal(manifest, &d); err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec
}

// A deployment is a way to deploy: the Caddyfile, and what is around it.
type deployment struct {
	caddyfile string
	args      []string
	env       []string
	hook      []string // Hermes' preStop hook
	drain     time.Duration
}

// inCluster is the sidecar by kustomize. That the chart makes the same, with its ports, shows package kubernetes.
func inCluster(t *testing.T) (d deployment) {
	t.Helper()
	read := func(name string) []byte {
		return []byte(harness.ReadFile(t, filepath.Join(manifests, name)))
	}
	d.caddyfile = string(read("components/sidecar/Caddyfile"))
	c := podOf(t, read("components/sidecar/pod.yaml")).InitContainers[0]
	d.args = c.Args
	for _, e := range c.Env {
		d.env = append(d.env, e.Name+"="+e.Value)
	}
	d.hook = podOf(t, read("base/deployment.yaml")).Containers[0].Lifecycle.PreStop.Exec.Command
	m := regexp.MustCompile(`drain_timeout (\w+)\n`).FindStringSubmatch(d.caddyfile)
	if m == nil {
		t.Fatal("the Caddyfile has no drain_timeout")
	}
	var err error
	if d.drain, err = time.ParseDuration(m[1]); err != nil {
		t.Fatal(err)
	}
	return d
}

// start runs the sidecar as in its pod. Of the Caddyfile only the two ports are
// others, and on the loopback interface alone.
func (d deployment) start(t *testing.T, upstream string) (s *sidecar.Process, base, health string) {
	t.Helper()
	home := t.TempDir()
	conf := d.caddyfile
	for port, to := range map[string]*string{"8643": &base, "8644": &health} {
		*to = harness.FreePort(t)
		site := "\n:" + port + " {\n"
		if strings.Count(conf, site) != 1 {
			t.Fatalf("the Caddyfile has no line %q", strings.TrimSpace(site))
		}
		conf = strings.Replace(conf, site, "\n"+sidecar.OnLoopback(*to), 1)
	}
	file := filepath.Join(home, "Caddyfile")
	harness.WriteFile(t, file, []byte(conf))
	args := slices.Clone(d.args)
	i := slices.Index(args, "/etc/hermes-sidecar/Caddyfile")
	if i < 0 {
		t.Fatalf("the sidecar is started with %q", args)
	}
	args[i] = file
	env := sidecar.Environment(home)
	for _, e := range d.env {
		switch name, value, _ := strings.Cut(e, "="); {
		case name == "HERMES_UPSTREAM" && value == "127.0.0.1:8642":
			env = append(env, name+"="+upstream)
		case value == "/data":
			env = append(env, name+"="+home)
		default:
			t.Fatalf("the sidecar has the variable %s", e)
		}
	}
	return sidecar.RunArgs(t, env, args...), "http://" + base, "http://" + health
}

// TestDeployedCaddyfileRepairs, and answers the kubelet and Prometheus.
func TestDeployedCaddyfileRepairs(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	s, base, health := inCluster(t).start(t, up.Addr)
	checkServed(t, base, health)
	f := metrics.Scrape(t, health+"/metrics")
	if f.Value("caddy_hermes_streams_active") != 0 || f.Streams("ok") != 1 {
		t.Error("the stream is not in the metrics")
	}
	if !strings.Contains(s.Log.String(), "admin endpoint disabled") {
		t.Error("the agent could reconfigure the sidecar")
	}
}

// TestReadinessFollowsHermes through the sidecar, whose own health does not.
func TestReadinessFollowsHermes(t *testing.T) {
	answer := upstream.AsJSON("200 OK", `{"status":"ok","platform":"hermes-agent"}`)
	up := upstream.New(t, func(x *upstream.Exchange) {
		if x.Req.Method != http.MethodGet || x.Req.URL.Path != "/health" {
			t.Errorf("%s %s", x.Req.Method, x.Req.URL)
		}
		answer(x)
	})
	_, base, health := inCluster(t).start(t, up.Addr)
	want := func(state string, readiness int) {
		t.Helper()
		if res, _ := client.Get(t, http.DefaultClient, base+"/health"); res.StatusCode != readiness {
			t.Errorf("%s: readiness is %d", state, res.StatusCode)
		}
		if res, _ := client.Get(t, http.DefaultClient, health+"/healthz"); res.StatusCode != 200 {
			t.Errorf("%s: the sidecar's own health is %d", state, res.StatusCode)
		}
	}
	want("a good Hermes", 200)
	answer = upstream.AsJSON("503 Service Unavailable", `{"status":"starting"}`)
	want("a Hermes that is not well", 503)
	up.Close()
	want("no Hermes", 502)
}

// TestPodEndsInTime: a stream that is open when the sidecar is told to stop gets its error, whole,
// so that the grace period has not ended. That the pod has time for it shows package kubernetes.
func TestPodEndsInTime(t *testing.T) {
	t.Parallel()
	d := inCluster(t)
	up, _ := upstream.Held(t)
	s, base, _ := d.start(t, up.Addr)
	live := client.New(t, base).Chat()
	for range 2 {
		live.Frame()
	}
	began := time.Now()
	s.Terminate()
	a := strict.Decode(t, live.All())
	if a.Err == nil || a.Err.Code != "shutting_down" || a.Finish != "error" || !a.Done {
		t.Errorf("frames %v, error %+v", a.Names(), a.Err)
	}
	s.Exit()
	if took := time.Since(began); took < d.drain {
		t.Errorf("the exit took %v, drain_timeout is %v", took, d.drain)
	}
}

// prestop starts Hermes' preStop hook, with the port that the sidecar has here.
func (d deployment) prestop(t *testing.T, health string) (ended <-chan time.Time) {
	t.Helper()
	python, err := exec.LookPath(d.hook[0])
	if err != nil {
		t.Skipf("Hermes' preStop hook is a script of %s, of which the PATH has none", d.hook[0])
	}
	port := health[strings.LastIndex(health, ":")+1:]
	script := strings.Replace(d.hook[2], "8644", port, 1)
	if script == d.hook[2] {
		t.Fatal("the hook does not ask the sidecar")
	}
	cmd := exec.Command(python, d.hook[1], script)
	var bad strings.Builder
	cmd.Stderr = &bad
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	c := make(chan time.Time, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cmd.Wait(); err == nil {
			c <- time.Now()
		} else if !t.Failed() {
			t.Errorf("the hook: %v: %s", err, bad.String())
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-done })
	return c
}

// TestHermesWaitsForWhatIsInFlight: its preStop hook ends 5 seconds after the
// last request, streamed or not, and then too if there is none or no sidecar.
func TestHermesWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	const idle = 5 * time.Second
	d := inCluster(t)
	ends := func(what string, hook <-chan time.Time, began time.Time) {
		t.Helper()
		select {
		case at := <-hook:
			if took := at.Sub(began); took < idle-2*time.Second {
				t.Errorf("%s: the hook ended after %v", what, took)
			}
		case <-time.After(harness.Patience):
			t.Errorf("%s: the hook does not end", what)
		}
	}
	up, rest := upstream.Held(t)
	silent, _ := upstream.Held(t)
	hooks, began := map[string]<-chan time.Time{}, time.Now()
	for what, of := range map[string]*upstream.Server{"a stream": up, "no answer yet": silent, "no request": up, "no sidecar": up} {
		s, base, health := d.start(t, of.Addr)
		switch what {
		case "a stream":
			live := client.New(t, base).Chat()
			live.Frame()
		case "no answer yet":
			go client.New(t, base).Try("/v1/chat/completions", "X-Play", "no header")
			<-silent.Asked
		case "no sidecar":
			s.Stop()
		}
		hooks[what] = d.prestop(t, health)
	}
	for _, what := range []string{"no request", "no sidecar"} {
		ends(what, hooks[what], began)
	}
	// The others have had time to give up, and have not.
	select {
	case <-hooks["a stream"]:
		t.Fatal("the hook ends while a stream is open")
	case <-hooks["no answer yet"]:
		t.Fatal("the hook ends while an answer is waited for")
	case <-time.After(idle):
	}
	began = time.Now()
	close(rest)
	silent.Close()
	for _, what := range []string{"a stream", "no answer yet"} {
		ends(what, hooks[what], began)
	}
}

// find returns the groups of the only place in a file of the repository that matches.
func find(t *testing.T, file, expression string) []string {
	t.Helper()
	text, err := os.ReadFile(harness.Path(file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d places that match %s, want one", file, len(found), expression)
	}
	return found[0][1:]
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLimitsAreForTheStreamsOfCapacity: docs/capacity.md says how many streams each limit of
// memory is enough for, as its formula has it, and all deployments have one that is enough
// for a thousand.
func TestLimitsAreForTheStreamsOfCapacity(t *testing.T) {
	formula := find(t, "docs/capacity.md", `memory = (\d+) MB \+ (\d+) kB for each open stream`)
	start, each := number(t, formula[0])*1e6, number(t, formula[1])*1e3

	page, err := os.ReadFile(harness.Path("docs/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	streams := make(map[int]int) // by the limit in MiB
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) (MiB|GiB) \| (\d+) \|$`).FindAllStringSubmatch(string(page), -1) {
		limit := number(t, row[1])
		if row[2] == "GiB" {
			limit <<= 10
		}
		streams[limit] = number(t, row[3])
		if most := (limit<<20 - start) / each; streams[limit] > most || streams[limit] < most-100 {
			t.Errorf("%d MiB are for %d streams, and the formula says %d", limit, streams[limit], most)
		}
	}
	for file, expression := range map[string]string{
		"deploy/kubernetes/chart/values.yaml":           `(?ms)^sidecar:$.*?^    limits: \{memory: (\d+)Mi\}$`,
		"deploy/kubernetes/components/sidecar/pod.yaml": `limits: \{memory: (\d+)Mi\}`,
		"deploy/open-webui/compose.yaml":                `mem_limit: (\d+)m`,
		"deploy/systemd/hermes-sidecar.service":         `MemoryMax=(\d+)M`,
	} {
		if limit := number(t, find(t, file, expression)[0]); streams[limit] < 1000 {
			t.Errorf("%s has a limit of %d MiB, which is for %d streams", file, limit, streams[limit])
		}
	}
}

// TestNothingThrottlesBelowGoMemlimit: Caddy sets GOMEMLIMIT to nine tenths of MemoryMax, and
// the service must not be throttled before the garbage collector works for that.
func TestNothingThrottlesBelowGoMemlimit(t *testing.T) {
	const unit = "deploy/systemd/hermes-sidecar.service"
	high, most := number(t, find(t, unit, `MemoryHigh=(\d+)M`)[0]), number(t, find(t, unit, `MemoryMax=(\d+)M`)[0])
	if high*10 <= most*9 {
		t.Errorf("MemoryHigh is %d MiB, which is not above nine tenths of %d", high, most)
	}
}

// TestMigration: the init container in front of Hermes runs Hermes' script when there is
// a configuration and the version has one, and lets Hermes start whatever comes of it.
func TestMigration(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("the init container runs a shell, of which the PATH has none")
	}
	migrate := podOf(t, []byte(harness.ReadFile(t, filepath.Join(manifests, "base/deployment.yaml")))).InitContainers[0]
	if migrate.Name != "migrate" || strings.Join(migrate.Command, " ") != "/bin/sh -c" || len(migrate.Args) != 1 {
		t.Fatalf("it is %+v", migrate)
	}
	const script = "scripts/docker_config_migrate.py"
	for what, c := range map[string]struct {
		files []string
		fails bool
		ran   bool
	}{
		"a new home":                     {files: []string{script}},
		"a home that is there":           {files: []string{script, "config.yaml"}, ran: true},
		"a version without the script":   {files: []string{"config.yaml"}},
		"a configuration that is broken": {files: []string{script, "config.yaml"}, fails: true, ran: true},
	} {
		dir := t.TempDir()
		python := "#!" + shell + "\necho \"$1\" > " + dir + "/ran\n"
		if c.fails {
			python += "exit 3\n"
		}
		for _, sub := range []string{".venv/bin", "scripts"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, ".venv/bin/python"), []byte(python), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.files {
			harness.WriteFile(t, filepath.Join(dir, f), nil)
		}
		cmd := exec.Command(shell, "-c", strings.ReplaceAll(migrate.Args[0], "/opt/hermes", dir))
		cmd.Env = []string{"HERMES_HOME=" + dir}
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: Hermes does not start: %v", what, err)
		}
		ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
		if got := strings.TrimSpace(string(ran)); got != "" != c.ran || c.ran && got != filepath.Join(dir, script) {
			t.Errorf("%s: it ran %q", what, got)
		}
		if strings.Contains(said.String(), "migrate: failed") != c.fails {
			t.Errorf("%s: it says %q", what, said.String())
		}
	}
}
