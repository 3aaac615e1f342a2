package options

import (
	"slices"
	"strings"
	"testing"
)

// TestSchemaOfTheChartHasTheTable: the properties in its definition "options" are what the table says, but
// for what the chart sets itself or has no place for. The rest of the schema is written
// by hand: integration/configuration compares the kinds with the program.
func TestSchemaOfTheChartHasTheTable(t *testing.T) {
	without := []string{"approvals", "approval_timeout", "identity", "drain_timeout", "record", "record_max"}
	var properties object
	for _, o := range table {
		if !slices.Contains(without, o.Name) {
			properties = append(properties, member{o.Name, chartOption(t, o)})
		}
	}
	want, err := text(object{
		{"$comment", "Generated from the table of options: go test ./internal/options -update"},
		{"description", "Options of the hermes directive. Those that are not here keep their defaults."},
		{"type", "object"},
		{"additionalProperties", false},
		{"properties", properties},
	}, "    ")
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "../../deploy/kubernetes/chart/values.schema.json", `    "options": `, ",\n      \"$defs\": ", strings.TrimSuffix(want, "\n    }"))
}

// chartOption returns the schema of an option in the chart's values: one of its kinds, or
// the words and what YAML makes of on and off.
func chartOption(t *testing.T, o *Option) object {
	kind := func(name string) object {
		return object{{"title", o.Help}, {"$ref", "#/$defs/options/$defs/" + name}}
	}
	var values []any
	switch o.kind {
	case size:
		return kind("size")
	case timeout:
		return kind("timeout")
	case duration:
		return kind("duration")
	case tools:
		return kind("tools")
	case onOff:
		values = []any{"on", "off", true, false}
	case words:
		for _, w := range o.words {
			values = append(values, w)
		}
		if slices.Contains(o.words, "off") {
			values = append(values, false)
		}
	default:
		t.Fatalf("%s: the chart has no definition of its kind", o.Name)
	}
	return object{{"title", o.Help}, {"enum", values}}
}
