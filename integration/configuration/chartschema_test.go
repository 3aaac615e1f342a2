package configuration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemaOfTheChartRefusesWhatTheSidecarRefuses: Helm says at once what would otherwise keep a pod
// from starting. A value that the schema allows is one that the sidecar runs with, as the chart
// writes it into its Caddyfile. The other way round holds for each value that is not odd:
//
//   - a size such as 1073MB or 0.001TB
//   - a duration as in TestSchemaAgreesWithTheHandler
func TestSchemaOfTheChartRefusesWhatTheSidecarRefuses(t *testing.T) {
	file := harness.Path("deploy/kubernetes/chart/values.schema.json")
	doc, err := schema.Parse(harness.ReadFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	options, err := compiler.Compile("values.schema.json#/$defs/options")
	if err != nil {
		t.Fatal(err)
	}
	seed := harness.Seed(t, seedVariable)
	r := randomValues{rand.New(rand.NewPCG(seed, seed)), ""}
	s := sidecarOf(t)
	for _, name := range slices.Sorted(maps.Keys(options.Properties)) {
		p := options.Properties[name]
		kind := "words"
		if p.Ref != nil {
			kind = p.Ref.Location[strings.LastIndexByte(p.Ref.Location, '/')+1:]
		}
		var good, bad int
		for _, value := range r.ofChart(kind, p) {
			v, err := schema.Parse(value)
			if err != nil {
				t.Fatalf("%v in %s", err, value)
			}
			says := s.refusesCaddyfile(caddyfileOf(name, v))
			allowed := options.Validate(map[string]any{name: v}) == nil
			switch {
			case allowed && says != "":
				t.Errorf("the chart allows %s: %s, the sidecar says %s", name, value, says)
			case !allowed && says == "":
				t.Errorf("the chart refuses %s: %s, the sidecar does not", name, value)
			case allowed:
				good++
			default:
				bad++
			}
		}
		if good < 2 || bad < 3 {
			t.Errorf("%s, of the kind %s: %d values pass, %d are refused", name, kind, good, bad)
		}
		for _, value := range noWords {
			if v, err := schema.Parse(value); err != nil || options.Validate(map[string]any{name: v}) == nil {
				t.Errorf("the chart allows %s: %s, %v", name, value, err)
			}
		}
	}
}

// noWords are values that no option takes, because they would not become one word of the Caddyfile, or are of another
// type.
var noWords = []string{
	"null", "[]", `["off"]`, `{"a": "b"}`, `""`, `"10s 5s"`, `"20 MB"`, `"{$X}"`, `"10s\n\t}\n\trespond"`, "\"`10s`\"", `"10s # x"`,
	`{"": "x"}`, "{\"`🛰`\": \"y\"}", `{"a\"🛰": "b"}`, `{"🛰️": null}`, `{"🛰️": 5}`, `{"🛰️": ["x"]}`, `{"🛰️": "x\"\n\t}\n\trespond"}`, `"🛰️ satellite"`,
}

// ofChart returns values of the kind of an option, good and bad ones.
func (r randomValues) ofChart(kind string, p *jsonschema.Schema) (values []string) {
	add := func(texts ...string) {
		for _, s := range texts {
			values = append(values, quoted(s))
		}
	}
	switch kind {
	case "words":
		for _, v := range p.Enum.Values {
			b, _ := json.Marshal(v)
			values = append(values, string(b))
			if s, ok := v.(string); ok {
				add(strings.ToUpper(s[:1])+s[1:], s[:len(s)-1])
			}
		}
		add("loud", "")
		values = append(values, "1")
	case "size":
		values = append(values, "1024", "1023", "1073741824", "1073741825", "-1048576", "0", "1048576", "1.5")
		add("20XB", "1MiB", "1mib", "1Mi", "64k", "1KB", "2KB", "1.5KB", "1KiB", "0.5KiB", "1023", "1024", "1024B", "999B", "1GiB", "1.1GiB", "1GB", "2GB", "0.5GB", ".5G", "1024MiB", "1025MiB",
			"1000MB", "1024MB", "1100MB", "-1MB", "+1MB", "MB", ".", "1.MB", "1..5MB", "1e6", "10 MB", "1TB", "1PiB", "0", "00002MB", "0MB", "1MBB", "1Mb", "１MB", "1073741824", "1073741825", "9999999999", "off")
		for range 10 {
			n := 1 + r.IntN(1<<r.IntN(12))
			add(fmt.Sprint(n, []string{"KB", "KiB", "MiB", "kib", "m", "Q", "KKB"}[r.IntN(7)]))
		}
	case "tools":
		values = append(values, `{"🛰️": "satellite", "🪐": "an orrery"}`, `{}`, `{"🛰️": "_hidden"}`, `{"abc": "x"}`, `{"🛰️ x": "x"}`, `{"🛰️": " "}`, `{"🛰️": ""}`, quoted2(strings.Repeat("🛰", 17), "x"), quoted2(strings.Repeat("🛰", 16), "x"))
	default:
		values = append(values, "0", "5", "-1", "true", "1.5")
		if kind == "timeout" {
			values = append(values, "false", `"off"`)
		} else {
			values = append(values, "false", `"off"`, `"on"`)
		}
		add("30min", "-5s", "10s", "1h30m", "1d", "500ms", "1µs", "999us", "1ms", "0s", "0", "-0s", "5", "1S", "s", "1h 30m", "1,5s", "½s", "soon", "{env.X}", "infinity", "1w")
		for range 15 {
			add(r.duration())
		}
		// A Caddyfile's word is not quoted.
		values = slices.DeleteFunc(values, func(v string) bool { return strings.Contains(v, `" `) || v == `""` })
	}
	return values
}

// caddyfileOf returns the lines of a Caddyfile that the chart's template makes of an option.
func caddyfileOf(name string, value any) string {
	switch v := value.(type) {
	case map[string]any:
		lines := ""
		for key, of := range v {
			lines += fmt.Sprintf("\t\t%s \"%s\" \"%v\"\n", name, key, of)
		}
		return lines
	case bool:
		return "\t\t" + name + map[bool]string{true: " on\n", false: " off\n"}[v]
	}
	return fmt.Sprintf("\t\t%s %v\n", name, value)
}

// refusesCaddyfile is refuses for the lines of a hermes directive.
func (r *running) refusesCaddyfile(lines string) string {
	r.t.Helper()
	text := "{\n\tadmin " + r.s.Admin + "\n\tpersist_config off\n}\nhttp://" + r.listen + " {\n\tbind 127.0.0.1\n\thermes {\n" + lines + "\t}\n\treverse_proxy 127.0.0.1:8642\n}\n"
	return r.s.TryLoad("text/caddyfile", text)
}
