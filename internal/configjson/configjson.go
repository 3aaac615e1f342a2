// Package configjson decodes the JSON of a module of Caddy's. Where a value has another type than
// its option, the error names the option and says what to write: a Caddyfile has on, off and 1MiB,
// for which JSON has true, false and a number.
package configjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
)

// Unmarshal decodes b into the fields of a struct that into points to, strictly as Caddy does. It is
// for the method UnmarshalJSON of a module, which passes itself as a type without methods.
func Unmarshal(b []byte, into any) error {
	if err := Check(b, into); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Check returns an error for a value in b that no field of the struct that of points to can have, as
// Unmarshal does. It is for modules that do not decode themselves.
func Check(b []byte, of any) error { return check("", b, reflect.TypeOf(of).Elem()) }

// check reports a value in b that no field of the type t can have. name is the option's. It finds
// less than the decoder: what it does not know passes.
func check(name string, b json.RawMessage, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if string(b) == "null" || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	if t == reflect.TypeFor[caddy.Duration]() {
		return invalid(name, b, t, `a quoted duration, such as "30s", or the number 0`)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return checkMembers(name, b, t)
	case reflect.Slice:
		return checkElements(name, b, t)
	case reflect.Bool:
		return invalid(name, b, t, "true or false, without quotes")
	case reflect.Int, reflect.Int64:
		return invalid(name, b, t, "a whole number, without quotes or a unit"+inBytes(b))
	case reflect.String:
		return invalid(name, b, t, "a quoted string"+asWord(b))
	}
	return nil
}

// checkMembers checks the members of b, which must be an object, for a struct or a map.
func checkMembers(name string, b json.RawMessage, t reflect.Type) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		if name == "" {
			return nil // the decoder's error names no option either
		}
		return fmt.Errorf("invalid %s %s: must be an object", name, shown(b, t))
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		of := typeOf(t, member)
		if of == nil {
			continue
		}
		if err := check(strings.TrimPrefix(name+" "+member, " "), members[member], of); err != nil {
			return err
		}
	}
	return nil
}

// typeOf returns the type of a member of the map or struct t, nil if it is not known.
func typeOf(t reflect.Type, member string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && strings.EqualFold(name, member) { // as encoding/json finds a field
			return f.Type
		}
	}
	return nil
}

// checkElements checks the elements of b, which must be a list.
func checkElements(name string, b json.RawMessage, t reflect.Type) error {
	var elements []json.RawMessage
	if json.Unmarshal(b, &elements) != nil {
		return fmt.Errorf("invalid %s %s: must be a list", name, shown(b, t))
	}
	for _, e := range elements {
		if err := check(name, e, t.Elem()); err != nil {
			return err
		}
	}
	return nil
}

// invalid returns an error if b is no value of the type t: it must be what must says.
func invalid(name string, b json.RawMessage, t reflect.Type, must string) error {
	if json.Unmarshal(b, reflect.New(t).Interface()) == nil {
		return nil
	}
	return fmt.Errorf("invalid %s %s: must be %s", name, shown(b, t), must)
}

// inBytes returns the number that the size in b, such as "1MiB", stands for, for an error.
func inBytes(b json.RawMessage) string {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return ""
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return ""
	}
	return fmt.Sprintf(": %d", n)
}

// asWord returns the word that true or false in b stands for in a Caddyfile, for an error.
func asWord(b json.RawMessage) string {
	switch string(b) {
	case "true":
		return `, such as "on"`
	case "false":
		return `, such as "off"`
	}
	return ""
}

// longestShown is the length in bytes of the longest value that an error shows.
const longestShown = 40

// shown returns b as an error shows it: not where a text is expected, which may be a secret.
func shown(b json.RawMessage, t reflect.Type) string {
	switch {
	case b[0] == '{':
		return "(an object)"
	case b[0] == '[':
		return "(a list)"
	case b[0] != 't' && b[0] != 'f' && (t.Kind() == reflect.String || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || len(b) > longestShown):
		return "(a value of another type)"
	}
	return string(b)
}
