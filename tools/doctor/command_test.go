package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

const doctorKey = "of-this-test-and-nothing-else"

// doctorFlags returns a command with arguments.
func doctorFlags(t testing.TB, args ...string) *doctorCommand {
	t.Helper()
	c, cmd := new(doctorCommand), &cobra.Command{}
	c.flags(cmd)
	// A busy machine may answer later than the defaults want.
	patience := []string{"--timeout", caddytest.Patience.String(), "--ask-timeout", caddytest.Patience.String()}
	if err := cmd.ParseFlags(append(patience, args...)); err != nil {
		t.Fatal(err)
	}
	return c
}

// doctorRun runs caddy hermes-doctor with arguments and an environment.
func doctorRun(t testing.TB, env map[string]string, args ...string) (status int, out string, err error) {
	t.Helper()
	var b bytes.Buffer
	status, err = doctorFlags(t, args...).run(context.Background(), nil, func(name string) string { return env[name] }, &b)
	return status, b.String(), err
}

// hermesAt starts what answers like Hermes 0.20.3, for those with the key.
func hermesAt(t testing.TB, key string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health":
			io.WriteString(w, `{"status": "ok", "platform": "hermes-agent", "version": "0.20.3"}`)
		case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error": {"message": "Invalid gateway API key (API_SERVER_KEY)", "code": "gateway_auth_failed"}}`)
		default:
			io.WriteString(w, `{"object": "list", "data": [{"id": "hermes-agent", "owned_by": "hermes"}]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestDoctorsExitStatus(t *testing.T) {
	const captures = "../../testdata/captures/"
	keyed := hermesAt(t, doctorKey)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(doctorKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"API_SERVER_KEY": doctorKey}
	for _, c := range []struct {
		name   string
		env    map[string]string
		args   []string
		status int
		has    string
	}{
		{"the key of the environment", given, []string{"--to", keyed}, exitHealthy, "takes this one"},
		{"the key of a file", nil, []string{"--to", keyed, "--key-file", file}, exitHealthy, "takes this one"},
		{"a file before the environment", map[string]string{"API_SERVER_KEY": "another"}, []string{"--to", keyed, "--key-file", file}, exitHealthy, "takes this one"},
		{"a key", nil, []string{"--to", keyed, "--key", doctorKey}, exitHealthy, "takes this one"},
		{"a wrong key", map[string]string{"API_SERVER_KEY": "another"}, []string{"--to", keyed}, exitProblems, "it refuses this key"},
		{"no key", nil, []string{"--to", keyed}, exitProblems, "none is given"},
		{"nobody", given, []string{"--to", caddytest.Refusing(t)}, exitProblems, "nothing listens there"},
		{"a recording", nil, []string{"--recording", captures + "g0-v0.8.0/one_tool.sse"}, exitHealthy, "G0, Hermes 0.7 and 0.8"},
	} {
		for _, form := range [][]string{nil, {"--json"}} {
			status, out, err := doctorRun(t, c.env, append(slices.Clone(c.args), form...)...)
			if status != c.status || err != nil || !strings.Contains(out, c.has) && !strings.Contains(strings.Join(strings.Fields(out), " "), c.has) {
				t.Errorf("%s %v: status %d, %v\n%s", c.name, form, status, err, out)
			}
			if strings.Contains(out, doctorKey) {
				t.Errorf("%s: the key is printed:\n%s", c.name, out)
			}
			var r struct {
				Schema int
				Result string
				Agents []any
			}
			if form != nil && (json.Unmarshal([]byte(out), &r) != nil || r.Schema != 1 || r.Result != map[int]string{0: "ok", 1: "problems"}[c.status] || len(r.Agents) != 1) {
				t.Errorf("%s: %+v of\n%s", c.name, r, out)
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
		{[]string{"--to", "http://me:" + doctorKey + "@127.0.0.1:8642"}, "--to: an address with a user name"},
		{[]string{"--to", "127.0.0.1:8642/v1"}, "--to: invalid upstream: write 127.0.0.1:8642, without a path"},
		{[]string{"--to", "https://hermes.example.com/"}, "--to: invalid upstream: write https://hermes.example.com, without a path"},
		{[]string{"--to", "127.0.0.1:1", "--through", "x"}, "--through: an address without a port"},
		{[]string{"--timeout", "0s"}, "use durations above 0"},
		{[]string{"--ask-timeout", "-1s"}, "use durations above 0"},
		{[]string{"--recording", "nope.sse"}, "opening the recording: open nope.sse"},
		{[]string{"--recording", write("empty.sse", "")}, "the recording has no frame of Hermes"},
		{[]string{"--recording", "x", "--ask"}, "--recording sends nothing"},
		{[]string{"--key", doctorKey + "\nX: y"}, "--key: a key is one line"},
		{[]string{"--key", doctorKey + "é"}, "--key: a key is one line"},
		{[]string{"--key", strings.Repeat(doctorKey, maxKey)}, "of at most 4096 bytes"},
		{[]string{"--key", doctorKey, "--key-file", "x"}, "give one of them"},
		{[]string{"--key-file", "nope"}, "reading the key: open nope"},
		{[]string{"--key-file", dir}, "reading the key: "},
		{[]string{"--key-file", write("blank", "\n")}, "--key-file: there is no key in it"},
		{[]string{"--key-file", write("long", strings.Repeat(doctorKey, maxKey))}, "--key-file: a key is one line"},
		{[]string{"--config", "nope"}, "reading the configuration: "},
		{[]string{"--adapter", "caddyfile"}, "reading the configuration: "},
		{[]string{"--config", write("bad.json", "{")}, "reading the configuration: "},
		{[]string{"--config", write("list.json", "[]")}, "the configuration is not Caddy's"},
		{[]string{"--config", write("none.json", "{}")}, "no site has hermes_proxy"},
	} {
		status, out, err := doctorRun(t, nil, c.args...)
		if status != exitNotExamined || out != "" || err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), doctorKey) {
			t.Errorf("%q: status %d, %q, %v", c.args, status, out, err)
		}
	}
	if status, err := new(doctorCommand).run(context.Background(), []string{"127.0.0.1:8642"}, os.Getenv, io.Discard); status != exitNotExamined || err == nil {
		t.Errorf("an argument: %d, %v", status, err)
	}
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestDoctorThatCannotWrite(t *testing.T) {
	for _, form := range []string{"--json=false", "--json"} {
		c := doctorFlags(t, "--to", hermesAt(t, ""), form)
		if status, err := c.run(context.Background(), nil, func(string) string { return "" }, full{}); status != exitNotExamined || err == nil {
			t.Errorf("%s: %d, %v", form, status, err)
		}
	}
}

// subjectsOf returns what a command examines, each as "agent < what names it < sidecar".
func subjectsOf(t testing.TB, env map[string]string, args ...string) (all []string) {
	t.Helper()
	of, err := doctorFlags(t, args...).subjects(func(name string) string { return env[name] })
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	for _, p := range of {
		says := p.target.String() + " < " + filepath.Base(p.namedBy)
		if p.through != nil {
			says += " < " + p.through.String()
		}
		for name := range p.set {
			if name != "handler" {
				says += " " + name
			}
		}
		all = append(all, says)
	}
	return all
}

// TestAgentThatIsExamined is the one of the flag, the configuration, the environment, or
// the default, in this order.
func TestAgentThatIsExamined(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	image := map[string]string{"HERMES_UPSTREAM": "hermes:8642 other:8642"}
	check := func(name string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	check("nothing", subjectsOf(t, nil), "http://127.0.0.1:8642 < the default")
	check("the image", subjectsOf(t, image), "http://hermes:8642 < HERMES_UPSTREAM", "http://other:8642 < HERMES_UPSTREAM")
	check("a flag", subjectsOf(t, image, "--to", ":1", "--through", ":2"), "http://127.0.0.1:1 < --to < http://127.0.0.1:2")

	config := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config(":80\nrespond hi\n")
	check("a Caddyfile of something else", subjectsOf(t, image), "http://hermes:8642 < HERMES_UPSTREAM", "http://other:8642 < HERMES_UPSTREAM")
}

// hermesConfig is a configuration as the Caddyfile adapter makes it of sites with hermes.
const hermesConfig = `{"apps": {"http": {"servers": {
	"plain": {"listen": [":8643"], "routes": [{"handle": [
		{"handler": "hermes", "stall_timeout": 1800000000000},
		{"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}, {"dial": "127.0.0.1:8652"}]}]}]},
	"routes": {"listen": ["192.0.2.7:8653"], "routes": [
		{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "unrelated:1"}]}]},
		{"handle": [{"handler": "hermes"}]},
		{"handle": [{"handler": "subroute", "routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "hermes:8642"}], "transport": {"protocol": "http", "tls": {}}}]}]}]}]},
	"secure": {"listen": [":443"], "routes": [{"match": [{"host": ["a.example.com"]}], "handle": [{"handler": "subroute", "routes": [{"handle": [
		{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "unix//run/h.sock"}, {"dial": "127.0.0.1:8642"}]}]}]}]}]},
	"several": {"listen": [":8000-8010"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "{env.DOCTOR_TEST}:8642"}]}]}]},
	"unnamed": {"listen": [":8683"], "tls_connection_policies": [{}], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}]}]}]},
	"z": {"listen": [":8673"], "automatic_https": {"skip": ["localhost"]}, "routes": [{"match": [{"host": ["localhost"]}], "handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "last:8642"}]}]}]},
	"dynamic": {"listen": [":8663"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "dynamic_upstreams": {}}]}]}
}}}}`

func TestAgentsOfAConfiguration(t *testing.T) {
	t.Setenv("DOCTOR_TEST", "fromenv")
	file := filepath.Join(t.TempDir(), "caddy.json")
	if err := os.WriteFile(file, []byte(hermesConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	got := subjectsOf(t, map[string]string{"HERMES_UPSTREAM": "unused:1"}, "--config", file)
	want := []string{
		"http://127.0.0.1:8642 < caddy.json < http://127.0.0.1:8643 stall_timeout",
		"http://127.0.0.1:8652 < caddy.json < http://127.0.0.1:8643 stall_timeout",
		"https://hermes:8642 < caddy.json < http://192.0.2.7:8653",
		"unix//run/h.sock < caddy.json < https://a.example.com:443",
		"http://fromenv:8642 < caddy.json",
		"http://last:8642 < caddy.json < http://localhost:8673",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = subjectsOf(t, nil, "--config", file, "--through", "https://hermes.example.com")
	if !strings.HasSuffix(got[0], "< https://hermes.example.com stall_timeout") {
		t.Errorf("%q", got)
	}
}
