package clients

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestTypedClient: hermes-agent-api-client knows the frames of Hermes and no others. With the options of
// docs/clients.md it reads what the sidecar sends, and sees each failure; with the defaults it does not.
func TestTypedClient(t *testing.T) {
	const python = "python3.13"
	program, err := exec.LookPath(python)
	if err == nil {
		err = exec.Command(python, "--version").Run()
	}
	if err != nil {
		t.Skipf("the client needs %s: %v", python, err)
	}
	lock := filepath.Join("python", "hermes-api-client.txt")
	site, err := (&workshop{t: t}).install("python", []string{python}, []string{lock}, func(ctx context.Context, dir string) *exec.Cmd {
		return exec.CommandContext(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
			"--no-deps", "--only-binary", ":all:", "--target", dir, "--requirement", lock)
	})
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	suited := sidecar.Options{"keepalive_form": "comment", "error_finish": "inline", "cards": false}
	const tool = "tool terminal running\ntool terminal completed\n"
	text := hermes.Delta("role", "assistant") + "\n\n" + hermes.Delta("content", "Hello") + "\n\n"
	running := "event: hermes.tool.progress\n" + `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "make", "toolCallId": "call_1", "status": "running"}` + "\n\n"
	completed := "event: hermes.tool.progress\n" + `data: {"tool": "terminal", "toolCallId": "call_1", "status": "completed"}` + "\n\n"
	more := hermes.Delta("content", " world") + "\n\n"
	end := hermes.Finish("stop", 5) + "\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		first, rest string // what Hermes sends before and after a silence
		silent      bool
		want, plain string // what the program sees with these options and with the defaults
	}{
		"an answer":                 {text + running + completed + more + end, "", false, tool + "end success False\ntext 'Hello world'\nkeepalives False", tool + "exception HermesProtocolError"},
		"a tool that is silent":     {text + running, completed + more + end, true, tool + "end success False\ntext 'Hello world'\nkeepalives True", "tool terminal running\nexception HermesProtocolError"},
		"a crash in a tool":         {text + running, "", false, tool + "end upstream_error True\ntext 'Hello'\nkeepalives False", tool + "exception HermesProtocolError"},
		"a stop that hides a crash": {text + running + completed, hermes.Finish("stop", 0) + "\n\ndata: [DONE]\n\n", false, tool + "end upstream_error True\ntext 'Hello'\nkeepalives False", tool + "exception HermesProtocolError"},
	} {
		for form, options := range map[string]sidecar.Options{"suited": suited, byDefault: {}} {
			t.Run(name+"/"+form, func(t *testing.T) {
				var tap *tap
				up := upstream.New(t, func(x *upstream.Exchange) {
					x.Events()
					x.Chunk([]byte(c.first))
					if c.silent {
						tap.await(x, 4) // the header, the frames, and keepalives
					}
					x.Chunk([]byte(c.rest))
					x.End()
				})
				if c.silent {
					options = options.With(sidecar.Options{"keepalive": "50ms"})
				}
				s := sidecar.Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: options}
				sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{s}})
				tap = newTap(t, "http://"+s.Listen)
				cmd := pythonAt(site, filepath.Join("python", "hermes_api_reads.py"), tap.url, "hi")
				cmd.Path = program
				out := outputOf(t, cmd)
				want := c.want
				if form == byDefault {
					want = c.plain
				}
				if !strings.HasPrefix(out, want) {
					t.Errorf("it prints %q, want %q", out, want)
				}
			})
		}
	}
}

// TestRealClientsOverResponses: openai-agents runs each tool itself that a response names, so that Hermes'
// tools are unknown to it, with the sidecar as without. The text comes all the same.
func TestRealClientsOverResponses(t *testing.T) {
	d := startDriver(t, pythonWith(t, "agents.txt", filepath.Join("python", "openai_agents_driver.py"), "responses"))
	d.ready()
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, modern+"/responses.one_tool"), upstream.ByFrame))
	mended, _ := sidecar.ServeCaddyfile(t, "hermes\n\treverse_proxy "+up.Addr)
	for name, base := range map[string]string{"through the sidecar": mended, direct: "http://" + up.Addr} {
		got := d.ask(base, name, harness.Patience)
		const text, says = "Let me check.\n\nThere are 3 files.", "Tool terminal not found in agent"
		if got.Text != text || got.Error == nil || !strings.Contains(got.Error.Message, says) {
			t.Errorf("%s: %+v, want the text %q and an error with %q: docs/clients.md says so", name, got, text, says)
		}
	}
}
