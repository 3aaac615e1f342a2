package caddymodule

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

// The handler has a field for each option of the table and no others, and each
// takes what a line of the Caddyfile gives.
func TestFieldsOfTheHandlerAreTheOptions(t *testing.T) {
	handler := reflect.TypeFor[Handler]()
	named := make(map[string]bool)
	for field := range handler.Fields() {
		name, tail, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		named[name] = true
		if options.Lookup(name) == nil || tail != "omitempty" {
			t.Errorf("%s is no option, or not omitted when empty", name)
		}
	}
	if len(named) != len(options.All()) {
		t.Errorf("%d fields, %d options", len(named), len(options.All()))
	}
	given := make(options.Values)
	for _, line := range append(hermesLines, "record /tmp", "record_max 1MB") {
		name, value, _ := strings.Cut(line, " ")
		if err := given.Set(name, strings.Fields(strings.ReplaceAll(value, `"`, ""))); err != nil {
			t.Error(err)
		}
	}
	if len(given) != len(options.All()) {
		t.Errorf("%d options are given, want %d", len(given), len(options.All()))
	}
	h := new(Handler)
	if err := given.Fill(h); err != nil {
		t.Fatal(err)
	}
	if again := options.Of(h); !reflect.DeepEqual(again, given) {
		t.Errorf("the handler has\n%v\nwant\n%v", again, given)
	}
}

// The defaults and values of the table are those of the code: that each default is
// the same as none, and that each kind takes what it says.
func TestTableTellsTheTruth(t *testing.T) {
	given := make(options.Values)
	for _, o := range options.All() {
		if o.Help == "" {
			t.Errorf("%s is not described", o.Name)
		}
		if o.Name == "tool" || o.Name == "record" {
			continue
		}
		if err := given.Set(o.Name, []string{o.Default}); err != nil {
			t.Errorf("default: %v", err)
		}
		usage := strings.Split(o.Usage(), "|")
		refused := func(value string) string {
			if err := make(options.Values).Set(o.Name, []string{value}); err != nil {
				return err.Error()
			}
			return ""
		}
		switch {
		case usage[0] == "duration":
			if off := len(usage) == 2 && usage[1] == "off"; off != (refused("off") == "") {
				t.Errorf("%s: %s", o.Name, o.Usage())
			}
		case usage[0] == "size":
			if !strings.Contains(refused("duration"), "must be a size") {
				t.Errorf("%s: %v", o.Name, refused("duration"))
			}
		default:
			for _, value := range usage {
				if got := refused(value); got != "" {
					t.Error(got)
				}
			}
			last := len(usage) - 1
			want := "must be " + strings.Join(usage[:last], ", ") + " or " + usage[last]
			if got := refused("size"); !strings.HasSuffix(got, want) {
				t.Errorf("%s: error %v, want ...%s", o.Name, got, want)
			}
		}
	}
	if err := given.Check(); err != nil {
		t.Error(err)
	}
	standard, err := given.Compile()
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := make(options.Values).Compile()
	if err != nil {
		t.Fatal(err)
	}
	sameOptions(t, standard, defaults)
}
