package deployment

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// Values of sidecar.options as a values file has them, for options that are not
// one of a few words. All of the same kind have the same ones.
var (
	goodDurations = []string{"0", `"0"`, "1ms", "500ms", "10s", "1m30s", "1h30m", "1d", "1.5s", "0.5s", ".5s", "90m", "1000us", "1m0s", "0s", "+5s", "-0s", "0.0h", "1h0m0.5s", "3µs2ms"}
	badDurations  = []string{"10", "5.5", `""`, `"10"`, "null", "true", "-1s", "10 s", `"10s 5s"`, "10sec", "1m30", "s", "1.2.3s", "5us", "999us", "0.5ms", "300000000h",
		"[10s]", "{a: 10s}", "{$KEEPALIVE}", `"{$KEEPALIVE}"`, `"10s\n\t}\n\trespond"`, "never"}
	goodSizes = []string{"1024", "2097152", "1073741824", "1_000_000", "0x1000", `"2097152"`, "1KiB", "2kB", "1.5MB", "20MB", "20mb", "20M", "64Ki", "0.5GB", "1GB", "1GiB", "1024MiB", "010MB", "1048576kib", "1073741824B"}
	badSizes  = []string{"5", "0", "1023", "1073741825", "2e9", `"5"`, `""`, "null", "true", "off", "-1", "-1MB", "20 MB", "2GiB", "1.5GiB", "1TB", "1kB", "1023B", "1073741825B", "1025MiB",
		"10MBytes", "10XB", "MB", "1.2.3MB", "[1MB]", "{a: 1MB}", "{$SIZE}", `"{$SIZE}"`, `"1MB\n\t}\n\trespond"`}
	// What the directive would take apart and find good is not asked for here.
	otherForms = map[string][]string{
		"tool":      {`"🛰️ satellite"`, `{"🛰️": [x]}`, `{"🛰️": 5}`},
		"keepalive": {`"10s # x"`, "\"`10s`\""},
		"max_frame": {"1048576.5", "\"`1MB`\"", `"1,024kB"`},
	}
	// By the definition of the schema that says what they are.
	kindValues = map[string]struct{ good, bad []string }{
		"duration": {goodDurations, slices.Concat([]string{"off", "false"}, badDurations)},
		"timeout":  {slices.Concat([]string{"off", `"off"`, "false"}, goodDurations), badDurations},
		"size":     {goodSizes, badSizes},
		"tools": {
			[]string{"{}", `{"🛰️": satellite}`, `{"🛰️": satellite, "👩‍🚀": "fly.to:moon-1"}`, `{"é1": x}`, `{"🛰️": two words}`, `{"🏴󠁧󠁢󠁥󠁮󠁧󠁿": é}`},
			[]string{"{a: x}", `{"": x}`, `{"🛰️": ""}`, `{"🛰️": " "}`, `{"🛰️": _x}`, `{"🛰 x": y}`, "{\"🛰\u00a0\": y}", "{\"`🛰`\": y}", `{"🛰️": null}`, `{"a\"🛰": b}`,
				`{"🛰️": "x\"\n\t}\n\trespond"}`, `{"` + strings.Repeat("🛰", 17) + `": x}`, "x", "true", "[x]"},
		},
	}
)

// TestChartsOptionsAreTheDirectives: for each option and value, the schema of the
// chart and the directive say the same. A value that passes the schema alone would
// be a pod that does not start.
func TestChartsOptionsAreTheDirectives(t *testing.T) {
	c := newChartOptions(t)
	for name, property := range c.properties {
		values, ok := kindValues[property.kind()]
		if ok == (len(property.Enum) > 0) {
			t.Errorf("%s has both words and values here, or neither: add a row to kindValues", name)
		}
		if !ok {
			for _, word := range property.Enum {
				b, _ := json.Marshal(word)
				values.good = append(values.good, string(b))
			}
			for _, v := range []string{"loud", `""`, "1", "0", "null", "true", "false", "[x]", "{a: b}", `"a b"`, "{$X}", `"{$X}"`} {
				if !slices.Contains(values.good, v) {
					values.bad = append(values.bad, v)
				}
			}
		}
		t.Run(name, func(t *testing.T) {
			for want, list := range map[bool][]string{true: values.good, false: values.bad} {
				for _, text := range list {
					var v any
					if err := yaml.Unmarshal([]byte(text), &v); err != nil {
						t.Fatal(err)
					}
					if err := c.schema(name, v); (err == nil) != want {
						t.Errorf("%s: %s: refused by the schema: %t", name, text, err != nil)
					}
					if err := c.directive(t, name, v); (err == nil) != want {
						t.Errorf("%s: %s: the directive says %v", name, text, err)
					}
				}
			}
			for _, text := range otherForms[name] {
				var v any
				if err := yaml.Unmarshal([]byte(text), &v); err != nil || c.schema(name, v) == nil {
					t.Errorf("%s: %s passes the schema, %v", name, text, err)
				}
			}
		})
	}
}

// TestChartsNumbersAreTheDirectives: the schema knows the bounds of sizes and
// durations by patterns. Here is what is near them, in every unit.
func TestChartsNumbersAreTheDirectives(t *testing.T) {
	c := newChartOptions(t)
	same := func(option, v string) {
		t.Helper()
		schema, directive := c.schema(option, v), c.directive(t, option, v)
		if (schema == nil) != (directive == nil) {
			t.Errorf("%s %q: refused by the schema: %t, by the directive: %t", option, v, schema != nil, directive != nil)
		}
	}
	for _, unit := range []string{"", "b", "B", "k", "kB", "Kb", "Ki", "KiB", "m", "MB", "Mi", "MiB", "G", "gb", "GiB", "gi", "TB", "PiB", "E", "iB", "x", " MB", "MBs"} {
		for _, n := range []string{"", "0", ".", "0.5", "0.002", "1", "1.", "1.5", "1.02", "1.03", "1.06", "1.08", "1..5", "007", "2", "512", "1023", "1024", "1025", "1072.9", "1073", "1074", "1047999", "1048575.9", "1048576", "1048577",
			"1073740.9", "1073741", "1073742", "999999999", "1073741823", "1073741824", "1073741825", "1999999999", "10000000000"} {
			same("max_frame", n+unit)
		}
	}
	for _, unit := range []string{"", "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "S", " s", "min"} {
		for _, n := range []string{"", "0", ".", "00", "1", "5.", "1.5", "999", "1000", "999999", "1000000", "-1", "1..5", "1e3", "1s1", "1m30", "1h2m3s4"} {
			same("keepalive", n+unit)
			same("keepalive", "1h"+n+unit)
		}
	}
	for _, unit := range []string{"s", "m", "h", "d"} {
		for _, n := range []string{"0.0", "0.5", ".5", "0.001", "0.0009", "0.0001", ".00000001"} {
			same("keepalive", n+unit)
		}
	}
}

// TestChartWritesOptions: what helm writes for values that pass is what the tests
// above take it for, and it refuses those that do not.
func TestChartWritesOptions(t *testing.T) {
	program := harness.Helm(t)
	render := func(options map[string]string) (string, error) {
		values := "sidecar:\n  options:\n"
		for name, text := range options {
			values += "    " + name + ": " + text + "\n"
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		harness.WriteFile(t, file, []byte(values))
		out, err := exec.Command(program, "template", "hermes", filepath.Join(manifests, "chart"), "--kube-version", "1.36.3", "--values", file, "--show-only", "templates/configmap.yaml").CombinedOutput()
		return string(out), err
	}
	properties := chartProperties(t, chartSchema(t))
	for i := range max(len(goodDurations)+3, len(goodSizes)) {
		options := map[string]string{}
		for name, property := range properties {
			if values, ok := kindValues[property.kind()]; ok {
				options[name] = values.good[i%len(values.good)]
			}
		}
		out, err := render(options)
		if err != nil {
			t.Errorf("%q: %v\n%s", options, err, out)
		}
		for name, text := range options {
			var v any
			if err := yaml.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			for _, line := range optionLines(name, v) {
				if !strings.Contains(out, "\t\t"+line+"\n") {
					t.Errorf("%s: %s: no line %q in\n%s", name, text, line, out)
				}
			}
		}
	}
	for _, name := range []string{"done_grace", "keepalive", "max_frame", "tool"} { // one of each kind
		for _, text := range slices.Concat(kindValues[properties[name].kind()].bad, otherForms[name]) {
			if out, err := render(map[string]string{name: text}); err == nil {
				t.Errorf("%s: %s is rendered:\n%s", name, text, out)
			}
		}
	}
}

// chartOptions asks the schema of the chart, and a running sidecar.
type chartOptions struct {
	properties map[string]chartProperty
	options    *jsonschema.Schema
	s          *sidecar.Process
	listen     string
}

// A chartProperty is what the schema says of an option.
type chartProperty struct {
	Enum []any
	Ref  string `json:"$ref"`
}

// kind is the definition that the option is of, "" for a few words.
func (p chartProperty) kind() string { return strings.TrimPrefix(p.Ref, "#"+chartOptionsAt+"/$defs/") }

// chartOptionsAt is where the schema has the options.
const chartOptionsAt = "/$defs/options"

// chartSchema reads the schema of the chart.
func chartSchema(t *testing.T) any {
	t.Helper()
	file := filepath.Join(manifests, "chart/values.schema.json")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(harness.ReadFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// chartProperties returns the options that the schema has.
func chartProperties(t *testing.T, doc any) (properties map[string]chartProperty) {
	t.Helper()
	for part := range strings.SplitSeq(chartOptionsAt[1:], "/") {
		doc = doc.(map[string]any)[part]
	}
	b, err := json.Marshal(doc.(map[string]any)["properties"])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &properties); err != nil {
		t.Fatal(err)
	}
	if len(properties) < 15 {
		t.Fatalf("the schema has %d options", len(properties))
	}
	return properties
}

func newChartOptions(t *testing.T) *chartOptions {
	t.Helper()
	doc := chartSchema(t)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	c := &chartOptions{properties: chartProperties(t, doc)}
	var err error
	if c.options, err = compiler.Compile("values.schema.json#" + chartOptionsAt); err != nil {
		t.Fatal(err)
	}
	conf := sidecar.Config{Admin: harness.FreePort(t)}
	c.s, c.listen = sidecar.Run(t, t.TempDir(), conf), harness.FreePort(t)
	return c
}

// schema is what the schema says of an option's value.
func (c *chartOptions) schema(name string, value any) error {
	return c.options.Validate(map[string]any{name: value})
}

// directive is what the sidecar says of it when it is to run with it.
func (c *chartOptions) directive(t *testing.T, name string, value any) error {
	t.Helper()
	conf := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\n\n%s\thermes {\n\t\t%s\n\t}\n}\n", c.s.Admin, sidecar.OnLoopback(c.listen), strings.Join(optionLines(name, value), "\n\t\t"))
	post := func() (*http.Response, error) {
		return http.Post("http://"+c.s.Admin+"/load", "text/caddyfile", strings.NewReader(conf))
	}
	res, err := post()
	for deadline := time.Now().Add(harness.Patience); err != nil && time.Now().Before(deadline); {
		res, err = post() // the admin server of the configuration before has gone
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(res.Body)
	return fmt.Errorf("%s: %s", res.Status, body)
}

// optionLines are those that the chart writes into its Caddyfile.
func optionLines(name string, value any) []string {
	switch v := value.(type) {
	case nil:
		return []string{name}
	case bool:
		return []string{name + " " + map[bool]string{true: "on", false: "off"}[v]}
	case float64:
		return []string{name + " " + strconv.FormatFloat(v, 'f', -1, 64)}
	case map[string]any:
		var lines []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			of := v[key]
			if of == nil {
				of = ""
			}
			lines = append(lines, fmt.Sprintf(`%s "%s" "%v"`, name, key, of))
		}
		return lines
	default:
		return []string{fmt.Sprintf("%s %v", name, v)}
	}
}
