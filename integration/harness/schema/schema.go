package schema

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a file of docs/schema.
type Schema struct {
	t        testing.TB
	name     string
	doc      any
	compiler *jsonschema.Compiler
}

// Load reads a file of docs/schema, such as config.json, and checks that it is a schema.
func Load(t testing.TB, name string) *Schema {
	t.Helper()
	doc, err := Parse(harness.ReadFile(t, harness.Path("docs/schema/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	return &Schema{t, name, doc, c}
}

// At returns what validates values against the part of the schema at a JSON pointer, such
// as "/$defs/hermes", or against all of it if that is "".
func (s *Schema) At(pointer string) *jsonschema.Schema {
	s.t.Helper()
	compiled, err := s.compiler.Compile(s.name + "#" + pointer)
	if err != nil {
		s.t.Fatal(err)
	}
	return compiled
}

// Parse decodes JSON as validators want it: numbers keep their digits.
func Parse(text string) (any, error) { return jsonschema.UnmarshalJSON(strings.NewReader(text)) }
