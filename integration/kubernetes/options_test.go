package kubernetes

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// kindValues are values of sidecar.options as a values file has them, by the definition of the
// schema that they are of. What the schema refuses: package configuration.
var kindValues = map[string][]string{
	"duration": durations,
	"timeout":  append([]string{"off", `"off"`, "false"}, durations...),
	"size":     {"1024", "2097152", "1_000_000", "0x1000", `"2097152"`, "1KiB", "1.5MB", "20M", "64Ki", "1GiB"},
	"tools":    {"{}", `{"🛰️": satellite}`, `{"🛰️": satellite, "👩‍🚀": "fly.to:moon-1"}`, `{"é1": x}`, `{"🛰️": two words}`, `{"🏴󠁧󠁢󠁥󠁮󠁧󠁿": é}`},
}

var durations = []string{"0", `"0"`, "1ms", "10s", "1m30s", "1d", ".5s", "+5s", "0.0h", "3µs2ms"}

// chartOptions returns the options that the schema of the chart has, with values that work.
func chartOptions(t *testing.T) map[string][]string {
	t.Helper()
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
	if err := json.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for name, property := range schema.Defs.Options.Properties {
		of, ok := kindValues[strings.TrimPrefix(property.Ref, "#/$defs/options/$defs/")]
		if ok == (len(property.Enum) > 0) {
			t.Errorf("%s has both words and values here, or neither: add a row to kindValues", name)
		}
		for _, word := range property.Enum {
			b, _ := json.Marshal(word)
			of = append(of, string(b))
		}
		values[name] = of
	}
	if len(values) < 15 {
		t.Fatalf("the schema has %d options", len(values))
	}
	return values
}

// TestChartWritesOptions: with any values that work, helm renders a Caddyfile that the sidecar
// takes and that has these options. That helm obeys the schema shows TestChartRefuses.
func TestChartWritesOptions(t *testing.T) {
	all := chartOptions(t)
	for i := range 13 { // each configuration has one value of each option
		options := map[string]string{}
		for name, values := range all {
			options[name] = values[i%len(values)]
		}
		values := "sidecar:\n  options:\n"
		for name, text := range options {
			values += "    " + name + ": " + text + "\n"
		}
		caddyfile := caddyfile(chartOf(t, "hermes", values))
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
}
