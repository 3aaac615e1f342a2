package schema

import (
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
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
