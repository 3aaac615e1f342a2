// Package schema checks what the sidecar says against the schemas in docs/schema.
//
//	schema.go  the files, and a frame of an event stream as frame.json has it
//	watch.go   each answer that package client reads: its frames and its errors
//	sent.go    what upstream has sent, which is not for the schemas to describe
package schema

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a file of docs/schema.
type Schema struct {
	name     string
	text     string
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
	return Schema{name, string(b), c}, c.AddResource(name, doc)
}

// At returns a validator of the part of the schema at a JSON pointer, such as
// "/$defs/hermes", or of all of it if that is "".
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

// toolComment begins a comment that is a tool event.
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
	if text, ok := strings.CutPrefix(raw, ": "); ok {
		text = strings.TrimSuffix(text, "\n\n")
		f["comment"] = text
		if name, rest, ok := strings.Cut(text, " "); ok && name == toolComment {
			f["comment"], data = name, rest
		}
	}
	switch {
	case data == "[DONE]":
		f["data"] = data
	case data != "":
		f["data"], err = Parse(data)
	case f["comment"] == nil:
		return nil, nil
	}
	return f, err
}
