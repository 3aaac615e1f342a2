package recipes

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestReadmesCaddyfiles run as they stand, but for their port and Hermes' address,
// and are open to this machine only. Caddy finds nothing to format in them.
func TestReadmesCaddyfiles(t *testing.T) {
	readme := harness.ReadFile(t, harness.Path("README.md"))
	sites := regexp.MustCompile(`(?m)^    (:8643 \{\n(?:    .*\n)*?    \}\n)`).FindAllStringSubmatch(readme, -1)
	if len(sites) != 3 {
		t.Fatalf("%d sites", len(sites))
	}
	options := regexp.MustCompile(`(?m)^    (hermes \{\n(?:    .*\n)*?    \}\n)`).FindAllStringSubmatch(readme, -1)
	if len(options) != 1 {
		t.Fatalf("%d blocks of options", len(options))
	}
	unindent := func(block string) string { return strings.ReplaceAll(block, "\n    ", "\n") }
	var caddyfiles []string
	for _, site := range sites {
		caddyfiles = append(caddyfiles, unindent(site[1]))
	}
	inSite := strings.ReplaceAll(strings.TrimSuffix(unindent(options[0][1]), "\n"), "\n", "\n\t")
	caddyfiles = append(caddyfiles, strings.Replace(caddyfiles[0], "\thermes\n", "\t"+inSite+"\n", 1))
	for _, text := range caddyfiles {
		if !strings.Contains(text, ":8643 {\n\tbind 127.0.0.1\n") {
			t.Errorf("it is open to everybody:\n%s", text)
		}
		up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
		home, listen := t.TempDir(), harness.FreePort(t)
		text = strings.Replace(text, "127.0.0.1:8642", up.Addr, 1)
		file := filepath.Join(home, "Caddyfile")
		harness.WriteFile(t, file, []byte(text))
		if out, bad, err := sidecar.Command(t, home, "validate", "--config", file); err != nil || strings.Contains(string(bad), "not formatted") {
			t.Errorf("%v\n%s%s\n%s", err, out, bad, text)
		}
		harness.WriteFile(t, file, []byte("{\n\tadmin off\n}\n\n"+strings.Replace(text, ":8643 {", "http://"+listen+" {", 1)))
		sidecar.RunArgs(t, sidecar.Environment(home), "run", "--config", file)
		a := client.New(t, "http://"+listen).Chat().Answer()
		a.CheckGood(t)
		if len(a.Starts) != 1 || strings.Contains(a.Content, "`") {
			t.Errorf("starts %v, content %q", a.Starts, a.Content)
		}
	}
}

// TestReloadLogsWhatTheReadmeQuotes where a stream is open for longer than the
// grace period; and the stream goes on.
func TestReloadLogsWhatTheReadmeQuotes(t *testing.T) {
	readme := harness.ReadFile(t, harness.Path("README.md"))
	const quoted = `"msg":"server shutdown","error":"server graceful shutdown 20s timeout"`
	if !strings.Contains(strings.ReplaceAll(readme, "\n", " "), quoted) {
		t.Fatalf("the README does not quote %s", quoted)
	}
	up, rest := upstream.Held(t)
	conf := sidecar.Config{Admin: harness.FreePort(t), Grace: "1s", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr}}}
	s := sidecar.Run(t, t.TempDir(), conf)
	live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
	got := live.Frame().Raw
	next := conf
	next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, Options: sidecar.Options{"status_line": true}}}
	s.Load(next)
	if !s.Says(strings.Replace(quoted, "20s", "1s", 1)) {
		t.Errorf("it says\n%s", s.Log)
	}
	close(rest)
	a := strict.Decode(t, got+live.All())
	a.CheckGood(t)
}
