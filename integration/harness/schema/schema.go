package schema

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a file of docs/schema.
type Schema struct {
	name     string
	compiler *jsonschema.Compiler
}

// Load reads a file of docs/schema, such as config.json.
func Load(t testing.TB, name string) Schema {
	t.Helper()
	s, err := load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(name string) (Schema, error) {
	b, err := os.ReadFile(harness.Path("docs/schema/" + name))
	if err != nil {
		return Schema{}, err
	}
	doc, err := Parse(string(b))
	if err != nil {
		return Schema{}, err
	}
	c := jsonschema.NewCompiler()
	return Schema{name, c}, c.AddResource(name, doc)
}

// At returns what validates values against the part of the schema at a JSON pointer, such
// as "/$defs/hermes", or against all of it if that is "".
func (s Schema) At(t testing.TB, pointer string) *jsonschema.Schema {
	t.Helper()
	compiled, err := s.compiler.Compile(s.name + "#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Parse decodes JSON as validators want it: numbers keep their digits.
func Parse(text string) (any, error) { return jsonschema.UnmarshalJSON(strings.NewReader(text)) }

// whole returns a function that returns a whole schema, which is compiled once.
func whole(name string) func() (*jsonschema.Schema, error) {
	return sync.OnceValues(func() (*jsonschema.Schema, error) {
		s, err := load(name)
		if err != nil {
			return nil, err
		}
		return s.compiler.Compile(name)
	})
}

var (
	frameSchema = whole("frame.json")
	errorSchema = whole("error.json")
)
