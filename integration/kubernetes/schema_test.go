package kubernetes

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// open are the values whose members are the user's own, so that values.yaml cannot have
// them.
var open = []string{"global", "sidecar.options"}

// TestSchemaOfTheChartIsComplete: the schema describes each value of values.yaml and no
// others, refuses every other name, and allows the defaults.
func TestSchemaOfTheChartIsComplete(t *testing.T) {
	file := filepath.Join(deployed, "chart/values.schema.json")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(harness.ReadFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(values); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	n := 0
	for _, problem := range compareValues(schema, values, "", &n) {
		t.Error(problem)
	}
	if n < 30 {
		t.Errorf("%d values are described", n)
	}

	delete(values, "service")
	values["surplus"] = map[string]any{"a": 1}
	missing := compareValues(schema, values, "", &n)
	slices.Sort(missing)
	if want := []string{"service is in the schema and not in values.yaml", "surplus is in values.yaml and not in the schema"}; !slices.Equal(missing, want) {
		t.Errorf("a value less and one more: %q", missing)
	}
}

// compareValues returns what either the schema or the values have alone, below a path, and
// objects that take any name. It counts what both have.
func compareValues(s *jsonschema.Schema, values map[string]any, path string, n *int) (problems []string) {
	for s.Ref != nil && s.Properties == nil {
		s = s.Ref
	}
	if s.AdditionalProperties != false {
		problems = append(problems, path+" takes names that nobody knows")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		value, there := values[name]
		members, isObject := value.(map[string]any)
		switch {
		case slices.Contains(open, at):
			*n++
		case !there:
			problems = append(problems, at+" is in the schema and not in values.yaml")
		case isObject && len(members) > 0 && !strings.HasSuffix(at, "resources"):
			problems = append(problems, compareValues(s.Properties[name], members, at, n)...)
		default:
			*n++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if s.Properties[name] == nil {
			problems = append(problems, strings.TrimPrefix(path+"."+name, ".")+" is in values.yaml and not in the schema")
		}
	}
	return problems
}
