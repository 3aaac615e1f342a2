package caddymodule

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

// TestAdapt adapts the Caddyfiles in testdata/adapt, which are in the format of
// Caddy's own (caddytest/integration/caddyfile_adapt): the Caddyfile, a line of
// dashes, and the JSON or the error that comes of it. What adapts is also
// provisioned and validated.
func TestAdapt(t *testing.T) {
	golden(t, filepath.Join("testdata", "adapt", "*.caddyfiletest"), adapt)
}

// golden runs the files of a pattern: what adapt makes of what is above the
// line of dashes has to be what is below it, JSON or an error. JSON is also
// provisioned and validated.
func golden(t *testing.T, pattern string, adapt func(in string) (string, error)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, ok := strings.Cut(string(text), "\n----------\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			want = strings.TrimSpace(want)
			if want == "" {
				t.Fatal("nothing is expected")
			}

			got, err := adapt(in)
			wantJSON := strings.HasPrefix(want, "{")
			switch {
			case err != nil && wantJSON:
				t.Fatalf("does not adapt: %v", err)
			case err == nil && !wantJSON:
				t.Fatalf("adapts, want the error\n%s", want)
			case err != nil:
				if err.Error() != want {
					t.Fatalf("error\n%s\nwant\n%s", err, want)
				}
				return
			}
			if got != want {
				t.Fatalf("adapts to\n%s\nwant\n%s", got, want)
			}
			validate(t, []byte(got))
		})
	}
}

// TestExampleAdapts keeps the example in the repository's root ready to use.
func TestExampleAdapts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("formatted as by caddy fmt", func(t *testing.T) {
		if !bytes.Equal(text, caddyfile.Format(text)) {
			t.Error("it is not")
		}
	})
	t.Run("as it is", func(t *testing.T) {
		got, err := adapt(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, `"dial": "127.0.0.1:8642"`) {
			t.Errorf("no default upstream in\n%s", got)
		}
		validate(t, []byte(got))
	})
	t.Run("the one directive instead of two", func(t *testing.T) {
		_, line, ok := strings.Cut(string(text), "\t# hermes_proxy ")
		line, _, _ = strings.Cut(line, "\n")
		if !ok {
			t.Fatal("it is not shown")
		}
		if _, err := adapt(":8643 {\n\thermes_proxy " + line + "\n}\n"); err != nil {
			t.Error(err)
		}
	})
	t.Run("with every option uncommented", func(t *testing.T) {
		in := strings.Replace(string(text), "# hermes_approvals", "hermes_approvals", 1)
		for _, o := range options.All() {
			commented := "# " + o.Name + " "
			if strings.Count(in, commented) != 1 {
				t.Errorf("%s is in a comment %d times, want 1", o.Name, strings.Count(in, commented))
			}
			in = strings.ReplaceAll(in, commented, o.Name+" ")
		}
		got, err := adapt(in)
		if err != nil {
			t.Fatal(err)
		}
		validate(t, []byte(got))
		h := onlyHandler(t, []byte(got))
		defaults, err := compile(new(Handler))
		if err != nil {
			t.Fatal(err)
		}
		if h.Tools == nil {
			t.Error("the example shows no tool")
		}
		h.Tools = nil
		shown, err := compile(h)
		if err != nil {
			t.Fatal(err)
		}
		sameOptions(t, shown, defaults)
		if n := len(options.All()); n != 28 {
			t.Errorf("%d options, want 28", n)
		}
	})
}

// adapt returns the Caddyfile as indented JSON. Warnings, of which the
// formatting is the only one, are no matter.
func adapt(in string) (string, error) {
	out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(in), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, out, "", "\t"); err != nil {
		return "", err
	}
	return b.String(), nil
}

// validate provisions and validates a configuration as caddy validate does,
// with storage of its own.
func validate(t *testing.T, config []byte) {
	t.Helper()
	if err := caddy.Validate(parseConfig(t, config)); err != nil {
		t.Errorf("does not validate: %v", err)
	}
}
