package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
)

// An object is a JSON object whose members keep their order. nil members are left out.
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
		if m.value == nil {
			continue
		}
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

// matches returns the schema of strings that match a pattern.
func matches(pattern string) object { return object{{"type", "string"}, {"pattern", pattern}} }

// Patterns of durations. ECMA-262, RE2 and Python read them alike: there is no \s, no
// look-ahead and no escape above ASCII in them.
const (
	unitPattern = `(ns|us|µs|μs|ms|s|m|h|d)`
	// zeroPattern matches each way to write no time at all.
	zeroPattern = `^[-+]?(0|((0+\.?0*|\.0+)` + unitPattern + `)+)$`
	// durationPattern matches what Caddy parses, but for what is longer than 285 years.
	durationPattern = `^\+?((0*([0-9]{1,18}|[1-8][0-9]{18})(\.[0-9]*)?|\.[0-9]+)ns|(0*([0-9]{1,15}|[1-8][0-9]{15})(\.[0-9]*)?|\.[0-9]+)(u|µ|μ)s|` +
		`(0*([0-9]{1,12}|[1-8][0-9]{12})(\.[0-9]*)?|\.[0-9]+)ms|(0*([0-9]{1,9}|[1-8][0-9]{9})(\.[0-9]*)?|\.[0-9]+)s|(0*([0-9]{1,8}|1[0-4][0-9]{7})(\.[0-9]*)?|\.[0-9]+)m|` +
		`(0*([0-9]{1,6}|1[0-9]{6}|2[0-4][0-9]{5})(\.[0-9]*)?|\.[0-9]+)h|(0*([0-9]{1,5}|10[0-3][0-9]{3})(\.[0-9]*)?|\.[0-9]+)d)+$`
	// millisecondPattern matches a part of at least 1ms. The parts of a duration are not
	// added up: two of them that are shorter are refused.
	millisecondPattern = `(^\+?|[a-zµμ])(0*[1-9][0-9]{6,}(\.[0-9]*)?ns|0*[1-9][0-9]{3,}(\.[0-9]*)?(u|µ|μ)s|[0-9]*[1-9][0-9]*(\.[0-9]*)?ms|` +
		`([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.0{0,2}[1-9][0-9]*)s|([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.0{0,3}[1-9][0-9]*)(m|h|d)([0-9.]|$))`
)

// durationText returns the schema of a duration as a string: zero, or 1ms and more.
func durationText() object {
	return object{{"type", "string"}, {"maxLength", 1024}, {"anyOf", []any{
		object{{"pattern", zeroPattern}},
		object{{"allOf", []any{object{{"pattern", durationPattern}}, object{{"pattern", millisecondPattern}}}}},
	}}}
}

// sizePattern matches sizes from minSize to maxSize as a Caddyfile writes them, but for a few that
// are easier to read as a number of bytes: with commas, in terabytes, or such as 1073MB.
const sizePattern = `^0*((102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-9][0-9]{4,8}|1073741824)[bB]?|` +
	`(1\.[1-9][0-9]*|([2-9]|[1-9][0-9]{1,5})(\.[0-9]*)?)[kK][bB]?|[1-9][0-9]{0,5}(\.[0-9]*)?[kK][iI][bB]?|` +
	`(\.[1-9][0-9]*|([1-9][0-9]{0,2}|10[01][0-9]|102[0-3])(\.[0-9]*)?|1024)[mM][iI]?[bB]?|(\.[1-9][0-9]*|1(\.0*)?)[gG][iI]?[bB]?)$`

// spaces are the characters of Unicode's white space above ASCII, for a class of a pattern.
const spaces = "\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

// emojiPattern matches a token with a character beyond ASCII, and without white space and
// backticks.
func emojiPattern() string {
	token := "[^\t-\r `" + spaces + "]*"
	return "^" + token + "[^\u0000-\u007f" + spaces + "]" + token + "$"
}
