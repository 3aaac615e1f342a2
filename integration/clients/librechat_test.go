package clients

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// libreChatVariable is "install" where LibreChat is to be installed and run. It is
// half a gigabyte, and not part of CI.
const libreChatVariable = "HERMES_LIBRECHAT"

// TestRealLibreChat shows the recordings to @librechat/agents, the part of LibreChat
// that talks to models, through the sidecar and, so that the test can fail, without:
// docs/open-webui.md has the same in a table.
func TestRealLibreChat(t *testing.T) {
	if os.Getenv(libreChatVariable) != "install" {
		t.Skip("LibreChat is not run: " + libreChatVariable + "=install installs and runs what of it talks to models")
	}
	t.Setenv(clientsVariable, "install")
	modules, err := (&workshop{t: t}).installModules("librechat")
	if err != nil {
		t.Fatal(err)
	}
	d := startDriver(t, exec.Command("node", besideModules(t, modules, "librechat/librechat.mjs")))
	d.ready()
	t.Logf("@librechat/agents %s", d.version)

	lab := newLab(t)
	b := lab.bench(t, d, byDefault)
	for _, s := range scenarios {
		for _, g := range generations {
			for _, rec := range s.recs {
				for _, kind := range s.kinds {
					if o := b.run(t, s, kind, g.dir, rec); !o.ok {
						t.Errorf("%s, %s %s: %s (%s)", s.title, g.short, kind, o.cell, o.why)
					}
				}
			}
		}
	}

	without := lab.bench(t, d, direct)
	for title, want := range map[string]string{
		"one tool": "markers in the text", "crash at once": "taken for a success", "crash after text": "taken for a success", "crash in a tool": "taken for a success",
	} {
		for _, s := range scenarios {
			if s.title != title {
				continue
			}
			if o := without.run(t, s, playWhole, "g0-v0.8.0", s.recs[0]); !strings.HasPrefix(o.cell, want) {
				t.Errorf("%s without the sidecar: %s (%s), want %s", title, o.cell, o.why, want)
			}
		}
	}
}
