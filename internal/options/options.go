// Package options is the one place that describes the options of the hermes handler: a
// table of their names, kinds of values, defaults and texts. The Caddyfile, the flags of
// the commands and their help, validation and the options of package proxy are all made from
// it. With -update, so do docs/options.md, docs/schema/config.json, the schema of the Helm
// chart, the comments of the handler's fields and of its Caddyfile, and Caddyfile.example;
// tests hold them to it.
//
// A new option is an entry of the table and a field of the handler with the same name in
// JSON. The package holds no state.
package options

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// An Option is a subdirective of the hermes directive.
type Option struct {
	Name    string // of the subdirective and of the member in JSON
	Default string // as a Caddyfile writes it; "" if there is none
	Help    string // describes the option in one line

	// The text of docs/options.md, in Markdown.
	Explanation string   // what the option does
	Values      []string // what each of its values does, in the order of Usage: what follows the value in a sentence
	Example     string   // a line of a Caddyfile that changes it
	When        string   // when to change it

	kind  kind
	words []string // the allowed values, if the kind is words or onOff
	// apply sets the value, which has been checked, in the options of package proxy. It is nil for
	// an option that package proxy does not have.
	apply func(o *proxy.Options, value any)
}

// Usage returns what a value looks like, such as size, duration|off or split|inline.
func (o *Option) Usage() string {
	if o.words != nil {
		return strings.Join(o.words, "|")
	}
	return kinds[o.kind].usage
}

// Repeatable reports whether the option may be given more than once.
func (o *Option) Repeatable() bool {
	return o.kind == tools || o.kind == approvals || o.kind == identity
}

// All returns the options in the order of the Caddyfile's syntax.
func All() []*Option { return table }

// Names returns the names of all options, in the order of All.
func Names() []string {
	names := make([]string, len(table))
	for i, o := range table {
		names[i] = o.Name
	}
	return names
}

// Unrecognized returns the error for a subdirective that is not one of the known ones. The error
// lists them, and suggests those that differ from name in at most two letters or begin with it.
func Unrecognized(name string, known []string) error {
	// Cobra suggests commands in this way.
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		all.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	var meant string
	if like := all.SuggestionsFor(name); name != "" && len(like) > 0 {
		meant = " (did you mean " + choice(like) + "?)"
	}
	return fmt.Errorf("unrecognized subdirective %q%s: must be %s", name, meant, choice(known))
}

// Lookup returns the option with the name, nil for none.
func Lookup(name string) *Option {
	for _, o := range table {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Values are the options that are given, by name, each as the handler's field of
// that name holds it. Encoded as JSON, they are a configuration of the handler.
type Values map[string]any

// Of returns the options that are given in a handler, a pointer to a struct: the
// fields that are not zero. A nil pointer is zero, a pointer to zero is not.
func Of(handler any) Values {
	v := make(Values)
	for field, value := range reflect.ValueOf(handler).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && !value.IsZero() {
			v[name] = reflect.Indirect(value).Interface()
		}
	}
	return v
}

// Fill sets the fields of a handler, a pointer to a struct, to the values.
func (v Values) Fill(handler any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, handler)
}

// Set sets an option from its arguments, as a line of the Caddyfile or a flag has
// them. Errors name the option, the value and the values that are allowed; the
// caller adds the place.
func (v Values) Set(name string, args []string) error {
	o := Lookup(name)
	if o == nil {
		return Unrecognized(name, Names())
	}
	if o.kind == approvals {
		all, _ := v[name].(Approvals)
		err := all.add(args)
		v[name] = all
		return err
	}
	if o.kind == identity {
		all, _ := v[name].(Identity)
		err := all.add(args)
		v[name] = all
		return err
	}
	n, must := 1, "one"
	if o.kind == tools {
		n, must = 2, "two"
	}
	if len(args) != n {
		allowed := kinds[o.kind].allowed
		if o.words != nil {
			allowed = choice(o.words)
		}
		return fmt.Errorf("wrong number of arguments for %s: got %d, must be %s: %s", name, len(args), must, allowed)
	}
	if o.kind == tools {
		if v[name] == nil {
			v[name] = make(map[string]string)
		}
		return addTool(v[name].(map[string]string), args[0], args[1])
	}
	value, err := o.parse(args[0])
	if err != nil {
		return err
	}
	v[name] = value
	if (o.Default == "off" || o.Default == "") && reflect.ValueOf(value).IsZero() {
		delete(v, name) // the handler's field cannot tell it from none
	}
	return nil
}

// Check reports the first option, in the order of the table, whose value is not
// allowed.
func (v Values) Check() error {
	for _, o := range table {
		if value, given := v[o.Name]; given {
			if err := o.check(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Compile returns the options of package proxy that the values stand for. It returns an error only
// for a tool that is not allowed, because tools have to be compiled; Check finds all other errors.
func (v Values) Compile() (proxy.Options, error) {
	o := proxy.DefaultOptions()
	if added, given := v["tool"].(map[string]string); given {
		if err := checkTools(added); err != nil {
			return proxy.Options{}, err
		}
		compiled, err := rewrite.NewTools(added)
		if err != nil {
			return proxy.Options{}, fmt.Errorf("invalid tool: %w", err)
		}
		o.Rewrite.Tools = compiled
	}
	for _, option := range table {
		if value, given := v[option.Name]; given && option.apply != nil {
			option.apply(&o, value)
		}
	}
	return o, nil
}

// orInstead returns the caddy.Duration value, or instead if it is zero, for options whose zero
// means something else in package proxy or rewrite.
func orInstead(value any, instead time.Duration) time.Duration {
	if d := time.Duration(value.(caddy.Duration)); d != 0 {
		return d
	}
	return instead
}
