package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"

	// The handlers and the adapter of the configurations.
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// doctorFlags returns a doctor with an environment and arguments.
func doctorFlags(t testing.TB, env map[string]string, args ...string) *doctor {
	t.Helper()
	d, cmd := newDoctor(), &cobra.Command{}
	d.env = func(name string) string { return env[name] }
	d.flags(cmd)
	// A busy machine may answer later than the defaults want.
	patience := []string{"--timeout", caddytest.Patience.String(), "--ask-timeout", caddytest.Patience.String()}
	if err := cmd.ParseFlags(append(patience, args...)); err != nil {
		t.Fatal(err)
	}
	return d
}

// doctorRun runs caddy hermes-doctor with arguments and an environment.
func doctorRun(t testing.TB, env map[string]string, args ...string) (status int, out string, err error) {
	t.Helper()
	var b bytes.Buffer
	status, err = doctorFlags(t, env, args...).run(t.Context(), nil, &b)
	return status, b.String(), err
}

func TestDoctorsExitStatus(t *testing.T) {
	keyed := (&fake{dir: "g3-v0.20.3", key: key}).start(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"API_SERVER_KEY": key}
	for _, c := range []struct {
		name   string
		env    map[string]string
		args   []string
		status int
		has    string
	}{
		{"the key of the environment", given, []string{"--to", keyed}, exitHealthy, "accepts this one"},
		{"the key of a file", nil, []string{"--to", keyed, "--key-file", file}, exitHealthy, "accepts this one"},
		{"a file before the environment", map[string]string{"API_SERVER_KEY": "another"}, []string{"--to", keyed, "--key-file", file}, exitHealthy, "accepts this one"},
		{"a key", nil, []string{"--to", keyed, "--key", key}, exitHealthy, "accepts this one"},
		{"a wrong key", map[string]string{"API_SERVER_KEY": "another"}, []string{"--to", keyed}, exitProblems, "it rejects this key"},
		{"no key", nil, []string{"--to", keyed}, exitProblems, "none was given"},
		{"nothing there", given, []string{"--to", caddytest.Refusing(t)}, exitProblems, "nothing listens there"},
		{"a recording", nil, []string{"--recording", captures + "/g0-v0.8.0/one_tool.sse"}, exitHealthy, "G0, Hermes 0.7 and 0.8"},
	} {
		for _, form := range [][]string{nil, {"--json"}} {
			status, out, err := doctorRun(t, c.env, append(slices.Clone(c.args), form...)...)
			if status != c.status || err != nil || !strings.Contains(out, c.has) && !strings.Contains(strings.Join(strings.Fields(out), " "), c.has) {
				t.Errorf("%s %v: status %d, %v\n%s", c.name, form, status, err, out)
			}
			if strings.Contains(out, key) {
				t.Errorf("%s: the key is printed:\n%s", c.name, out)
			}
			begins := "{\n  \"schema\": 1,\n  \"result\": \"" + map[int]string{exitHealthy: "ok", exitProblems: "problems"}[c.status]
			if form != nil && (!json.Valid([]byte(out)) || !strings.HasPrefix(out, begins)) {
				t.Errorf("%s: no JSON with the result:\n%s", c.name, out)
			}
		}
	}
}

// TestDoctorExaminesNothing if it is not told well what. The key is in no error.
func TestDoctorExaminesNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"--to", "127.0.0.1"}, "--to: an address without a port: use an address such as 127.0.0.1:8642"},
		{[]string{"--to", "http://me:" + key + "@127.0.0.1:8642"}, "--to: an address with a user name"},
		{[]string{"--to", "127.0.0.1:8642/v1"}, "--to: invalid upstream: write 127.0.0.1:8642, without a path"},
		{[]string{"--to", "https://hermes.example.com/"}, "--to: invalid upstream: write https://hermes.example.com, without a path"},
		{[]string{"--to", "127.0.0.1:1", "--through", "x"}, "--through: an address without a port"},
		{[]string{"--timeout", "0s"}, "use durations above 0"},
		{[]string{"--ask-timeout", "-1s"}, "use durations above 0"},
		{[]string{"--recording", "nope.sse"}, "opening the recording: open nope.sse"},
		{[]string{"--recording", write("empty.sse", "")}, "the recording contains no frame from Hermes"},
		{[]string{"--recording", "x", "--ask"}, "--recording sends nothing"},
		{[]string{"--key", key + "\nX: y"}, "--key: a key is one line"},
		{[]string{"--key", key + "é"}, "--key: a key is one line"},
		{[]string{"--key", strings.Repeat(key, maxKey)}, "of at most 4096 bytes"},
		{[]string{"--key", key, "--key-file", "x"}, "use only one of them"},
		{[]string{"--key-file", "nope"}, "reading the key: open nope"},
		{[]string{"--key-file", dir}, "reading the key: "},
		{[]string{"--key-file", write("blank", "\n")}, "--key-file: the file contains no key"},
		{[]string{"--key-file", write("long", strings.Repeat(key, maxKey))}, "--key-file: a key is one line"},
		{[]string{"--client-key-file", "nope"}, "reading the key: open nope"},
		{[]string{"--client-key-file", write("two", "Digest "+key)}, "--client-key-file: a key is one line"},
		{[]string{"--config", "nope"}, "reading the configuration: "},
		{[]string{"--adapter", "caddyfile"}, "reading the configuration: "},
		{[]string{"--config", write("bad.json", "{")}, "reading the configuration: "},
		{[]string{"--config", write("list.json", "[]")}, "the configuration is not a Caddy configuration"},
		{[]string{"--config", write("none.json", "{}")}, "no site contains hermes_proxy"},
	} {
		status, out, err := doctorRun(t, nil, c.args...)
		if status != exitNotExamined || out != "" || err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), key) {
			t.Errorf("%q: status %d, %q, %v", c.args, status, out, err)
		}
	}
	if status, err := newDoctor().run(t.Context(), []string{"127.0.0.1:8642"}, io.Discard); status != exitNotExamined || err == nil {
		t.Errorf("an argument: %d, %v", status, err)
	}
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestDoctorThatCannotWrite(t *testing.T) {
	d := doctorFlags(t, nil, "--to", (&fake{dir: "g3-v0.20.3"}).start(t))
	if status, err := d.run(t.Context(), nil, full{}); status != exitNotExamined || err == nil {
		t.Errorf("%d, %v", status, err)
	}
}
