package deployment

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// kindValues are values of sidecar.options as a values file has them, by the definition of the
// schema that they are of: those that work, and those that the schema refuses. A word of the
// wrong form, such as 10sec, is for Caddy to refuse.
var kindValues = map[string]struct{ good, bad []string }{
	"duration": {goodDurations, append([]string{"false"}, badDurations...)},
	"timeout":  {append([]string{"off", `"off"`, "false"}, goodDurations...), badDurations},
	"size": {
		[]string{"1024", "2097152", "1_000_000", "0x1000", `"2097152"`, "1KiB", "1.5MB", "20M", "64Ki", "1GiB"},
		[]string{`""`, "null", "true", "5.5", "20 MB", "[1MB]", "{a: 1MB}", "{$SIZE}", `"{$SIZE}"`, `"1MB\n\t}\n\trespond"`, "\"`1MB`\"", `"1MB # x"`},
	},
	"tools": {
		[]string{"{}", `{"🛰️": satellite}`, `{"🛰️": satellite, "👩‍🚀": "fly.to:moon-1"}`, `{"é1": x}`, `{"🛰️": two words}`, `{"🏴󠁧󠁢󠁥󠁮󠁧󠁿": é}`},
		[]string{`{"": x}`, `{"🛰️": ""}`, `{"🛰 x": y}`, "{\"`🛰`\": y}", `{"🛰️": null}`, `{"🛰️": 5}`, `{"🛰️": [x]}`, `{"a\"🛰": b}`, `{"🛰️": "x\"\n\t}\n\trespond"}`, "x", "true", "[x]", `"🛰️ satellite"`},
	},
}

var (
	goodDurations = []string{"0", `"0"`, "1ms", "10s", "1m30s", "1d", ".5s", "+5s", "0.0h", "3µs2ms"}
	badDurations  = []string{"10", "5.5", `""`, "null", "true", `"10s 5s"`, "[10s]", "{a: 10s}", `"{$KEEPALIVE}"`, `"10s\n\t}\n\trespond"`, "\"`10s`\"", `"10s # x"`}
)

// wordValues are values that an option of a few words is tried with, beside its words.
var wordValues = []string{"loud", `""`, "1", "0", "null", "true", "false", "[x]", "{a: b}", `"a b"`, `"{$X}"`}

// chartOptions returns the options that the schema of the chart has, with values that work and
// values that it refuses, and a validator of them.
func chartOptions(t *testing.T) (values map[string]struct{ good, bad []string }, validator *jsonschema.Schema) {
	t.Helper()
	const at = "/$defs/options"
	text := harness.ReadFile(t, filepath.Join(manifests, "chart/values.schema.json"))
	var schema struct {
		Defs struct {
			Options struct {
				Properties map[string]struct {
					Enum []any
					Ref  string `json:"$ref"`
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	values = map[string]struct{ good, bad []string }{}
	for name, property := range schema.Defs.Options.Properties {
		of, ok := kindValues[strings.TrimPrefix(property.Ref, "#"+at+"/$defs/")]
		if ok == (len(property.Enum) > 0) {
			t.Errorf("%s has both words and values here, or neither: add a row to kindValues", name)
		}
		if !ok {
			for _, word := range property.Enum {
				b, _ := json.Marshal(word)
				of.good = append(of.good, string(b))
			}
			of.bad = slices.DeleteFunc(slices.Clone(wordValues), func(v string) bool { return slices.Contains(of.good, v) })
		}
		values[name] = of
	}
	if len(values) < 15 {
		t.Fatalf("the schema has %d options", len(values))
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	if validator, err = compiler.Compile("values.schema.json#" + at); err != nil {
		t.Fatal(err)
	}
	return values, validator
}

// TestSchemaOfTheChartRefuses values of another type, and all that would not be one word of the
// Caddyfile.
func TestSchemaOfTheChartRefuses(t *testing.T) {
	all, validator := chartOptions(t)
	for name, values := range all {
		for _, text := range values.bad {
			if validator.Validate(map[string]any{name: parsed(t, text)}) == nil {
				t.Errorf("%s: %s passes the schema", name, text)
			}
		}
	}
}

// parsed returns a value of a values file.
func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestChartWritesOptions: with any values that work, helm renders a Caddyfile that the sidecar
// takes and that has these options; values that the schema refuses are not rendered.
func TestChartWritesOptions(t *testing.T) {
	render := func(options map[string]string) ([]byte, error) {
		values := "sidecar:\n  options:\n"
		for name, text := range options {
			values += "    " + name + ": " + text + "\n"
		}
		return helmTemplate(t, values, "--show-only", "templates/configmap.yaml")
	}
	all, _ := chartOptions(t)
	for i := range 13 { // each configuration has one value of each option
		options := map[string]string{}
		for name, values := range all {
			options[name] = values.good[i%len(values.good)]
		}
		out, err := render(options)
		if err != nil {
			t.Errorf("%q: %v", options, err)
			continue
		}
		caddyfile := caddyfileOf(t, out)
		adapted, bad, err := sidecar.CommandOn(t, "adapt", caddyfile, "--validate")
		if err != nil {
			t.Errorf("%q: %s\n%s", options, bad, caddyfile)
		}
		for name, text := range options {
			if !regexp.MustCompile(`(?m)^\t\t`+name+` `).MatchString(caddyfile) != (text == "{}") {
				t.Errorf("%s: %s: in\n%s\nwhich is\n%s", name, text, caddyfile, adapted)
			}
		}
	}
	for _, name := range []string{"done_grace", "keepalive", "max_frame", "tool"} { // one of each kind
		for _, text := range all[name].bad {
			if out, err := render(map[string]string{name: text}); err == nil {
				t.Errorf("%s: %s is rendered:\n%s", name, text, out)
			}
		}
	}
}

// helmTemplate renders the chart with values.
func helmTemplate(t *testing.T, values string, args ...string) ([]byte, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	harness.WriteFile(t, file, []byte(values))
	args = append([]string{"template", "hermes", filepath.Join(manifests, "chart"), "--kube-version", "1.36.3", "--values", file}, args...)
	return exec.Command(harness.Program(t, "HERMES_HELM", "helm"), args...).Output()
}

// caddyfileOf returns the Caddyfile of a ConfigMap.
func caddyfileOf(t *testing.T, configMap []byte) string {
	t.Helper()
	var config struct{ Data struct{ Caddyfile string } }
	if err := yaml.Unmarshal(configMap, &config); err != nil {
		t.Fatal(err)
	}
	return config.Data.Caddyfile
}

// TestChartRecordsStreams where the chart mounts the volume.
func TestChartRecordsStreams(t *testing.T) {
	render := func(template string) []byte {
		out, err := helmTemplate(t, "sidecar: {record: {enabled: true}}", "--show-only", "templates/"+template)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	pod := render("deployment.yaml")
	if !strings.Contains(string(pod), "mountPath: /record\n") {
		t.Fatal("nothing is mounted at /record")
	}
	d := deployment{caddyfile: caddyfileOf(t, render("configmap.yaml")), port: "8643", health: "8644"}.with(t, pod, pod)
	dir := t.TempDir()
	if !strings.Contains(d.caddyfile, "record /record/") {
		t.Fatalf("the Caddyfile records nowhere below the volume:\n%s", d.caddyfile)
	}
	d.caddyfile = strings.Replace(d.caddyfile, "record /record/", "record "+dir+"/", 1)
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	s, base, _ := d.start(t, up.Addr)
	client.New(t, base).Chat().Answer().CheckGood(t)
	s.Terminate() // a recording is whole after the end of its stream
	s.Exit()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sse"))
	if err != nil || len(files) != 1 {
		t.Fatalf("recordings %q, %v", files, err)
	}
	if b, err := os.ReadFile(files[0]); err != nil || string(b) != string(hermes.Recorded(t, "g0-v0.8.0/one_tool").Body) {
		t.Errorf("the recording is not what upstream sent, %v", err)
	}
}
