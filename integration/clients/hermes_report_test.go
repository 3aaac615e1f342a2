package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// hermesDoc says how a new Hermes is met, and has the last report.
var hermesDoc = harness.Path("docs/hermes.md")

// hermesRecordingsVariable names a directory for what Hermes alone sends.
const hermesRecordingsVariable = "HERMES_AGENT_RECORDINGS"

// record keeps a stream that Hermes has sent.
func record(t testing.TB, name, stream string) {
	t.Helper()
	if dir := os.Getenv(hermesRecordingsVariable); dir != "" {
		harness.WriteFile(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".sse"), []byte(stream))
	}
}

// line adds a line to the report: what happens, and what comes of it without the sidecar
// and with it.
func (h *hermesLab) line(what, bare, mended string) {
	h.lines = append(h.lines, row(what, bare, mended))
}

// cannot notes what this version does not do.
func (h *hermesLab) cannot(t *testing.T, what string) {
	t.Log("not tried: " + what)
	h.unknown = append(h.unknown, what)
}

// report shows what came of it all, and with -update writes it.
func (h *hermesLab) report(t *testing.T, version string) {
	lines := []string{"hermes-agent " + version + " and openai-python " + h.driver.version + ", " + time.Now().Format("2 January 2006"), ""}
	lines = append(lines, head("", "Hermes alone", "through the sidecar")...)
	lines = append(lines, h.lines...)
	if len(h.unknown) > 0 {
		lines = append(lines, "", "Not in this version:", "")
		for _, what := range h.unknown {
			lines = append(lines, "- "+what)
		}
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	if !*updateDocs || t.Failed() {
		return
	}
	page := harness.ReadFile(t, hermesDoc)
	m := generated.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no place for the report in %s", hermesDoc)
	}
	harness.WriteFile(t, hermesDoc, []byte(strings.Replace(page, m[0], m[1]+strings.Join(lines, "\n")+"\n"+m[4], 1)))
}
