package wire

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A start that comes parallel_window after the one before completes it.
func TestLateStartCompletesTheToolBefore(t *testing.T) {
	read := make(chan struct{})
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Text("\n`💻 ls`\n")
		x.Wait(read) // then the sidecar has it, too
		x.Pause(50 * time.Millisecond)
		x.Text("\n`📖 a.txt`\n")
		x.Text("\n\nok")
		x.Finish()
	}), sidecar.Options{"parallel_window": "10ms", "keepalive": 0})
	r := client.New(t, base).Chat()
	start := r.Frame()
	close(read)
	a := strict.Decode(t, start.Raw+r.All())
	a.CheckGood(t)
	if got := strings.Join(a.Names(), " "); got != "running completed running completed text finish stop done" {
		t.Errorf("frames %q", got)
	}
}

// without is a stream without the frames that begin so.
func without(body, prefix string) string {
	var kept strings.Builder
	for _, f := range strings.SplitAfter(body, "\n\n") {
		if !strings.HasPrefix(f, prefix) {
			kept.WriteString(f)
		}
	}
	return kept.String()
}

var forms = []string{"envelope", "bare", "unnamed", "comment", "off"}

// A tool that a site adds has the name that it gives it, whatever the emoji's selector.
func TestAddedTool(t *testing.T) {
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Chat(hermes.Marks("🛰️ up"), hermes.Says("\n\nok"))), sidecar.Options{"tool": map[string]string{"🛰": "satellite"}})
	a := client.New(t, base).Chat().Answer()
	a.CheckGood(t)
	if want := []strict.Start{{Emoji: "🛰️", Label: "up", Tool: "satellite"}}; !slices.Equal(a.Starts, want) {
		t.Errorf("starts %v, want %v", a.Starts, want)
	}
}

// Whatever breaks a stream off here, each call has its output: Open WebUI would run one without, and ask
// Hermes again.
func TestCardsOfBrokenStreams(t *testing.T) {
	want := []strict.Card{{Name: "💻 ls -la", Label: "ls -la", Output: "Error: interrupted"}, {Name: "💻 ls -la", Label: "ls -la", Output: "completed"}}
	check := func(t testing.TB, a *strict.Answer, code string) {
		t.Helper()
		if got := a.Cards(t); !reflect.DeepEqual(got, want) {
			t.Errorf("cards %+v in %v", got, a.Names())
		}
		a.CheckError(t, code)
	}
	cards := sidecar.Options{"cards": true}
	silent := upstream.New(t, upstream.Chat(hermes.Says("Running."), hermes.Starts("terminal", "call_1"), hermes.Starts("read_file", "call_2"),
		hermes.Ends("read_file", "call_2"), hermes.Waits(nil)))
	t.Run("timeout", func(t *testing.T) {
		harness.AtAnyPace(t, 300*time.Millisecond, func(t testing.TB, d time.Duration) {
			base, _ := sidecar.Serve(t, silent, sidecar.Still.With(cards).With(sidecar.Options{"idle_timeout": d.String()}))
			check(t, client.New(t, base).Chat().Answer(), "upstream_timeout")
		})
	})
	t.Run("drain", func(t *testing.T) {
		conf := sidecar.Config{Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: silent.Addr, Options: sidecar.Still.With(cards).With(sidecar.Options{"drain_timeout": "0s"})}}}
		s := sidecar.Run(t, t.TempDir(), conf)
		live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
		body := ""
		for !strings.Contains(body, "function_call_output") {
			body += live.Frame().Raw
		}
		s.Terminate()
		check(t, strict.Decode(t, body+live.All()), "shutting_down")
	})
}
