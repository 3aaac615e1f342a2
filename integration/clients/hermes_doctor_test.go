package clients

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// examinedByDoctor is the chat request of caddy hermes-doctor --ask: Reply with the
// single word: pong.
var examinedByDoctor = hermesScene{name: "Reply", turns: []modelTurn{{says: []string{"pong"}}}, text: "pong"}

// examine wants that caddy hermes-doctor knows the release of a real Hermes, finds no
// problem of it, and finds that a key is needed.
func (h *hermesLab) examine(t *testing.T, version string) {
	for key, want := range map[string]int{hermesKey: 0, "": 1} {
		cmd := exec.Command(sidecar.Binary(t), "hermes-doctor", "--to", h.bare, "--through", h.mended, "--ask", "--json",
			"--timeout", harness.Patience.String(), "--ask-timeout", harness.Patience.String())
		cmd.Env = sidecar.Environment(t.TempDir(), "API_SERVER_KEY="+key)
		out, err := cmd.Output()
		status := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			status = exit.ExitCode()
		}
		var report struct {
			Agents []struct {
				Version, Releases string
				Findings          []struct{ Check, Level, Says string }
			}
		}
		if err := json.Unmarshal(out, &report); err != nil || len(report.Agents) != 1 || status != want || strings.Contains(string(out), hermesKey) {
			t.Fatalf("status %d, %v\n%s", status, err, out)
		}
		a := report.Agents[0]
		if a.Version != "" && a.Version != version || a.Version == "" && a.Releases == "" {
			t.Errorf("version %q, releases %q\n%s", a.Version, a.Releases, out)
		}
		t.Logf("the doctor takes it for Hermes %s", a.Releases)
		asked := false
		for _, f := range a.Findings {
			asked = asked || f.Check == "through.answer" && f.Level == "ok"
			if f.Level == "fail" && (key != "" || f.Check != "key") || f.Level == "warn" {
				t.Errorf("%s: %s", f.Check, f.Says)
			}
		}
		if asked != (key != "") {
			t.Errorf("asked through the sidecar: %v\n%s", asked, out)
		}
	}
}
