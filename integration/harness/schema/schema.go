package schema

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
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

// toolComment is what a tool event in a comment begins with.
const toolComment = "hermes.tool.progress"

// idLine is the last line of each event with hermes_resume.
var idLine = regexp.MustCompile(`\nid: ([^\n]*)\n\n$`)

// Frame returns a frame, lines and blank line, as frame.json has it. It is nil for one that
// package strict cannot read, or that has neither data nor a comment. Data that is not JSON
// is an error.
func Frame(raw string) (map[string]any, error) {
	f := map[string]any{}
	if id := idLine.FindStringSubmatch(raw); id != nil {
		f["id"] = id[1]
		raw = strings.TrimSuffix(raw, id[0]) + "\n\n"
	}
	e, err := strict.Split(raw)
	if err != nil {
		return nil, nil
	}
	if e.Name != "" {
		f["event"] = e.Name
	}
	data := e.Data
	switch {
	case strings.HasPrefix(raw, ": "):
		text := strings.TrimSuffix(raw[len(": "):], "\n\n")
		f["comment"] = text
		if name, rest, ok := strings.Cut(text, " "); ok && name == toolComment {
			f["comment"], data = name, rest
		}
	case data == "[DONE]":
		f["data"] = data
		return f, nil
	}
	if data == "" {
		if f["comment"] == nil {
			return nil, nil
		}
		return f, nil
	}
	f["data"], err = Parse(data)
	return f, err
}
