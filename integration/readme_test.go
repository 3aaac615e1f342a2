package integration

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmesCaddyfiles run as they stand, but for their port and Hermes' address,
// and are open to this machine only. Caddy finds nothing to format in them.
func TestReadmesCaddyfiles(t *testing.T) {
	readme := read(t, path("README.md"))
	sites := regexp.MustCompile(`(?m)^    (:8643 \{\n(?:    .*\n)*?    \}\n)`).FindAllStringSubmatch(readme, -1)
	if len(sites) != 2 {
		t.Fatalf("%d sites", len(sites))
	}
	options := regexp.MustCompile(`(?m)^    (hermes \{\n(?:    .*\n)*?    \}\n)`).FindAllStringSubmatch(readme, -1)
	if len(options) != 1 {
		t.Fatalf("%d blocks of options", len(options))
	}
	unindent := func(block string) string { return strings.ReplaceAll(block, "\n    ", "\n") }
	caddyfiles := []string{unindent(sites[0][1]), unindent(sites[1][1])}
	inSite := strings.ReplaceAll(strings.TrimSuffix(unindent(options[0][1]), "\n"), "\n", "\n\t")
	caddyfiles = append(caddyfiles, strings.Replace(caddyfiles[0], "\thermes\n", "\t"+inSite+"\n", 1))
	for _, text := range caddyfiles {
		if !strings.Contains(text, ":8643 {\n\tbind 127.0.0.1\n") {
			t.Errorf("it is open to everybody:\n%s", text)
		}
		up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
		home, listen := t.TempDir(), freePort(t)
		text = strings.Replace(text, "127.0.0.1:8642", up.addr, 1)
		file := filepath.Join(home, "Caddyfile")
		write(t, file, []byte(text))
		if out, bad, err := caddy(t, home, "validate", "--config", file); err != nil || strings.Contains(string(bad), "not formatted") {
			t.Errorf("%v\n%s%s\n%s", err, out, bad, text)
		}
		write(t, file, []byte("{\n\tadmin off\n}\n\n"+strings.Replace(text, ":8643 {", "http://"+listen+" {", 1)))
		runArgs(t, environment(home), "run", "--config", file)
		a := newClient(t, "http://"+listen).chat().answer()
		a.checkGood(t)
		if len(a.starts) != 1 || strings.Contains(a.content, "`") {
			t.Errorf("starts %v, content %q", a.starts, a.content)
		}
	}
}

// TestReloadLogsWhatTheReadmeQuotes where a stream is open for longer than the
// grace period; and the stream goes on.
func TestReloadLogsWhatTheReadmeQuotes(t *testing.T) {
	readme := read(t, path("README.md"))
	const quoted = `"msg":"server shutdown","error":"server graceful shutdown 20s timeout"`
	if !strings.Contains(strings.ReplaceAll(readme, "\n", " "), quoted) {
		t.Fatalf("the README does not quote %s", quoted)
	}
	up, rest := held(t)
	conf := config{admin: freePort(t), grace: "1s", sites: []site{{listen: freePort(t), upstream: up.addr}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	got := live.frame().raw
	next := conf
	next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, options: options{"status_line": true}}}
	s.load(next)
	if !s.log.wait(strings.Replace(quoted, "20s", "1s", 1), s.exited) {
		t.Errorf("it says\n%s", s.log)
	}
	close(rest)
	a := decode(t, got+live.all())
	a.checkGood(t)
}
