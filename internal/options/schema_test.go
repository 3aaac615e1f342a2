package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
)

// An object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	before := byte('{')
	for _, m := range o {
		b.WriteByte(before)
		before = ','
		if err := e.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// text returns a value as a schema has it: indented, each line but the first after
// prefix, and with an escape for what is not to be seen.
func text(value any, prefix string) (string, error) {
	var b, out bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(value); err != nil {
		return "", err
	}
	for _, r := range string(bytes.TrimSpace(b.Bytes())) {
		if r >= ' ' && !unicode.IsPrint(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String(), nil
}

// ref returns a reference to a definition.
func ref(to string) object { return object{{"$ref", to}} }
