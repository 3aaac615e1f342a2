package operations

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// doctorKey is the API_SERVER_KEY of the agents that are examined.
const doctorKey = "of-this-test-and-nothing-else"

// An examined is what caddy hermes-doctor says.
type examined struct {
	status         int
	stdout, stderr string
	agent          struct {
		Generations []string
		Through     string
		Findings    []struct{ Check, Level, Says string }
	}
}

// finding returns the level and the text of a check.
func (e examined) finding(check string) (level, says string) {
	for _, f := range e.agent.Findings {
		if f.Check == check {
			return f.Level, f.Says
		}
	}
	return "", ""
}

// doctor runs caddy hermes-doctor in a directory of its own. Neither its output nor its
// errors have the key in them.
func doctor(t testing.TB, key string, args ...string) (e examined) {
	t.Helper()
	cmd := exec.Command(sidecar.Binary(t), append([]string{"hermes-doctor", "--timeout", harness.Patience.String(), "--ask-timeout", harness.Patience.String()}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = sidecar.Environment(cmd.Dir, "API_SERVER_KEY="+key, "HERMES_UPSTREAM=")
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	err := child.Run(cmd)
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	e.status, e.stdout, e.stderr = cmd.ProcessState.ExitCode(), out.String(), bad.String()
	if key != "" && strings.Contains(e.stdout+e.stderr, key) {
		t.Errorf("%q: the key is printed:\n%s%s", args, e.stdout, e.stderr)
	}
	var report struct{ Agents []json.RawMessage }
	if json.Unmarshal(out.Bytes(), &report) == nil && len(report.Agents) > 0 {
		if err := json.Unmarshal(report.Agents[0], &e.agent); err != nil {
			t.Error(err)
		}
	}
	return e
}

// agentOf returns a script of a Hermes with a key, of which everything was recorded.
func agentOf(t testing.TB, generation, scenario string) upstream.Script {
	answers := map[string]string{}
	for path, name := range map[string]string{"/health": "health", "/v1/models": "models", "401": "err.401"} {
		answers[path] = harness.ReadFile(t, filepath.Join(hermes.Captures, generation, name+".http"))
	}
	chat := upstream.Replay(hermes.Recorded(t, generation+"/"+scenario), upstream.ByFrame)
	return func(x *upstream.Exchange) {
		path := x.Req.URL.Path
		switch {
		case path != "/health" && x.Req.Header.Get("Authorization") != "Bearer "+doctorKey:
			x.Raw(answers["401"])
		case answers[path] != "":
			x.Raw(answers[path])
		case path == "/v1/chat/completions":
			chat(x)
		default:
			upstream.AsJSON("404 Not Found", `{}`)(x)
		}
	}
}

// The doctor reads the Caddyfile of a sidecar, examines its agent, of any
// generation, and sees that the sidecar repairs its answer.
func TestDoctorThroughTheSidecar(t *testing.T) {
	for generation, want := range map[string]string{
		"gm1-v0.6.0": "G-1 G0 G1 G2", "g0-v0.8.0": "G0", "g1-v0.9.0": "G1", "g3-v0.20.3": "G3",
	} {
		for _, directives := range []string{"hermes\n\treverse_proxy %", "handle /* {\n\thermes_proxy %\n}"} {
			up := upstream.New(t, agentOf(t, generation, "one_tool"))
			listen, home := harness.FreePort(t), t.TempDir()
			text := "{\n\tadmin off\n}\n" + sidecar.OnLoopback(listen) + "\n" + strings.Replace(directives, "%", up.Addr, 1) + "\n}\n"
			sidecar.RunCaddyfile(t, home, text)
			file := filepath.Join(t.TempDir(), "Caddyfile")
			harness.WriteFile(t, file, []byte(text))

			e := doctor(t, doctorKey, "--config", file, "--ask", "--json")
			if got := strings.Join(e.agent.Generations, " "); got != want || e.status != 0 || e.agent.Through != "http://"+listen {
				t.Errorf("%s: generation %s, status %d, through %q\n%s%s", generation, got, e.status, e.agent.Through, e.stdout, e.stderr)
			}
			level, says := e.finding("through.repaired")
			if want := map[bool]string{true: "info", false: "ok"}[generation == "gm1-v0.6.0"]; level != want { // G-1 shows no tools
				t.Errorf("%s: %s %s\n%s", generation, level, says, e.stdout)
			}
			chats := 0
			for _, r := range up.Requests() {
				if r.Method == "POST" {
					chats++
				}
			}
			if chats != 2 {
				t.Errorf("%s: %d chat requests", generation, chats)
			}
		}
	}
}

// The doctor reads what the record option writes.
func TestDoctorReadsRecordings(t *testing.T) {
	up := upstream.New(t, agentOf(t, "g0-v0.8.0", "one_tool"))
	dir := filepath.Join(t.TempDir(), "recordings")
	base, s := sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"record": dir}))
	if e := doctor(t, doctorKey, "--to", base, "--ask"); e.status != 0 || !strings.Contains(e.stdout, "a Caddy stands in front of it") {
		t.Errorf("status %d\n%s", e.status, e.stdout)
	}
	s.Terminate()
	s.Exit()
	files, err := filepath.Glob(filepath.Join(dir, "*.sse"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if e := doctor(t, "", "--recording", files[0]); e.status != 0 || !strings.Contains(e.stdout, "G0, Hermes 0.7 and 0.8") {
		t.Errorf("status %d\n%s", e.status, e.stdout)
	}
}
