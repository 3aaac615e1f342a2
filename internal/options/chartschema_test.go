package options

import (
	"os"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
)

const chartSchema = "../../deploy/kubernetes/chart/values.schema.json"

// TestSchemaOfTheChartHasTheTable: its definition "options" is what the table says, but
// for what the chart sets itself or has no place for. The rest of the schema is written
// by hand, and refers to it.
func TestSchemaOfTheChartHasTheTable(t *testing.T) {
	without := []string{"drain_timeout", "record", "record_max"}
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
		{"$defs", chartKinds()},
	}, "    ")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	have := gjson.GetBytes(b, "$defs.options")
	switch {
	case have.Index == 0:
		t.Fatal(chartSchema + ` has no definition "options"`)
	case have.Raw == want:
	case *update:
		whole := string(b[:have.Index]) + want + string(b[have.Index+len(have.Raw):])
		if err := os.WriteFile(chartSchema, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the table says (-update writes it): it has\n%s\nwant\n%s", chartSchema, have.Raw, want)
	}
}

// chartOption returns the schema of an option in the chart's values: one of its kinds, or
// the words and what YAML makes of on and off.
func chartOption(t *testing.T, o *Option) object {
	kind := func(name string) object {
		return object{{"title", o.Help}, {"$ref", "#/$defs/options/$defs/" + name}}
	}
	var values []any
	switch k := o.kind.(type) {
	case size:
		return kind("size")
	case duration:
		if k.off {
			return kind("timeout")
		}
		return kind("duration")
	case tools:
		return kind("tools")
	case onOff:
		values = []any{"on", "off", true, false}
	case words:
		for _, w := range k {
			values = append(values, w)
		}
		if slices.Contains(k, "off") {
			values = append(values, false)
		}
	default:
		t.Fatalf("%s: the chart has no definition of its kind", o.Name)
	}
	return object{{"title", o.Help}, {"enum", values}}
}

// chartKinds returns the definitions of the kinds. A value becomes a word of a Caddyfile,
// so nothing in it may end the word.
func chartKinds() object {
	const ends = `"{}\\`
	return object{
		{"duration", object{
			{"$comment", "What the directive takes: a number with a unit, several of them, or 0; 1ms at least, unless it is 0."},
			{"anyOf", []any{object{{"const", 0}}, durationText()}},
		}},
		{"timeout", object{
			{"$comment", "false is what YAML makes of off."},
			{"anyOf", []any{object{{"enum", []any{false, "off"}}}, ref("#/$defs/options/$defs/duration")}},
		}},
		{"size", object{
			{"$comment", "1KiB to 1GiB, in bytes, kB, KiB, MB, MiB, GB and GiB. The directive also takes commas, TB, and more decimals at the very bounds."},
			{"anyOf", []any{
				object{{"type", "integer"}, {"minimum", minSize}, {"maximum", maxSize}},
				object{{"type", "string"}, {"anyOf", sizePatterns()}},
			}},
		}},
		{"tools", object{
			{"type", "object"},
			{"propertyNames", object{
				{"$comment", "Not ASCII alone, no white space, 64 bytes at most."},
				{"pattern", emojiPattern(ends)},
				{"maxLength", 16},
			}},
			{"additionalProperties", matches("^[^\t-\r _`" + ends + "\u0000-\u001f" + spaces + "][^`" + ends + "\u0000-\u001f]*$")},
		}},
	}
}

// sizePatterns returns what matches 1KiB to 1GiB in each unit.
func sizePatterns() (all []any) {
	for _, p := range []string{
		`^0*(102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-9][0-9]{4,8}|10[0-6][0-9]{7}|107[0-2][0-9]{6}|1073[0-6][0-9]{5}|10737[0-3][0-9]{4}|1073740[0-9]{3}|1073741[0-7][0-9]{2}|10737418[01][0-9]|107374182[0-4])(\.[0-9]*)?[bB]?$`,
		`^0*(([2-9]|[1-9][0-9]{1,5}|10[0-6][0-9]{4}|107[0-2][0-9]{3}|1073[0-6][0-9]{2}|10737[0-3][0-9]|1073740)(\.[0-9]*)?|1073741|1\.(02[4-9]|0[3-9]|[1-9])[0-9]*)[kK][bB]?$`,
		`^0*(([1-9][0-9]{0,5}|10[0-3][0-9]{4}|104[0-7][0-9]{3}|1048[0-4][0-9]{2}|10485[0-6][0-9]|104857[0-5])(\.[0-9]*)?|1048576)[kK][iI][bB]?$`,
		`^0*(([1-9][0-9]{0,2}|10[0-6][0-9]|107[0-2])(\.[0-9]*)?|1073|\.(00[2-9]|0?[1-9])[0-9]*)[mM][bB]?$`,
		`^0*(([1-9][0-9]{0,2}|10[01][0-9]|102[0-3])(\.[0-9]*)?|1024|\.0{0,2}[1-9][0-9]*)[mM][iI][bB]?$`,
		`^0*(1(\.0*)?|1\.0[0-6][0-9]*|1\.07|\.0{0,4}[1-9][0-9]*)[gG][bB]?$`,
		`^0*(1(\.0*)?|\.0{0,4}[1-9][0-9]*)[gG][iI][bB]?$`,
	} {
		all = append(all, object{{"pattern", p}})
	}
	return all
}
