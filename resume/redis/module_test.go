package redis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule"
)

// TestAdapt adapts the Caddyfiles in testdata/adapt: after a line of dashes is the JSON or
// the error.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := strings.Cut(string(text), "\n----------\n")
			want = strings.TrimSpace(want)
			out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(in), map[string]any{"filename": "Caddyfile"})
			if err != nil {
				if err.Error() != want {
					t.Errorf("error\n%s\nwant\n%s", err, want)
				}
				return
			}
			var v any
			if err := json.Unmarshal(out, &v); err != nil {
				t.Fatal(err)
			}
			pretty, err := json.MarshalIndent(v, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			if string(pretty) != want {
				t.Fatalf("adapts to\n%s\nwant\n%s", pretty, want)
			}
			validate(t, string(out), "")
		})
	}
}

// validate loads a configuration, which must fail with the text, "" for not at all.
func validate(t *testing.T, config, want string) {
	t.Helper()
	var c caddy.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	c.Admin = &caddy.AdminConfig{Disabled: true}
	err := caddy.Validate(&c)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", config, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", config, err, want)
	}
}

// TestValuesThatAreRefused in JSON, with what to do.
func TestValuesThatAreRefused(t *testing.T) {
	t.Setenv("TEST_SECRET", "0123456789abcdef")
	t.Setenv("TEST_NO_ADDRESS", " ")
	const secret = `"secret":"{env.TEST_SECRET}"`
	for options, want := range map[string]string{
		secret + `,"tls":"on"`:                            "true or false, without quotes",
		`"prefix":"a"`:                                    "openssl rand -hex 32",
		`"secret":"short"`:                                "at least 16 characters",
		`"secret":"{env.TEST_NO_SUCH_VARIABLE}"`:          "secret",
		secret:                                            "",
		secret + `,"address":"127.0.0.1"`:                 "must be host:port",
		secret + `,"address":"udp/127.0.0.1:1"`:           "must be host:port",
		secret + `,"address":"{env.TEST_NO_ADDRESS}"`:     "the address is empty",
		secret + `,"address":"a:1 b"`:                     "must be host:port",
		secret + `,"address":"a:1 unix//b"`:               "must be host:port",
		secret + `,"address":"a:1 b:2"`:                   "",
		secret + `,"address":"unix//a","cluster":true`:    "must be host:port",
		secret + `,"address":"unix//a","master_name":"a"`: "must be host:port",
		secret + `,"cluster":true,"master_name":"a"`:      "mutually exclusive",
		secret + `,"sentinel_password":"a"`:               "need master_name",
		secret + `,"on_failure":"fail"`:                   "must be pass or 503",
		secret + `,"on_failure":"pass"`:                   "",
		secret + `,"prefix":"a}"`:                         "must not contain braces",
		secret + `,"lease":5`:                             "invalid lease",
		secret + `,"timeout":3`:                           "invalid timeout",
		secret + `,"lease":"1s","timeout":"1ms"`:          "",
		secret + `,"tls_ca":"testdata/no_such"`:           "reading the CA certificates",
		secret + `,"tls_ca":"module_test.go"`:             "must be a PEM file",
	} {
		validate(t, `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes_resume","storage":{"module":"redis",`+options+`}}]}]}}}}}`, want)
	}
}
