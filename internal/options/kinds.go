package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A kind says which values an option takes.
type kind uint8

const (
	words     kind = iota // one of a few words
	onOff                 // on or off, a bool in JSON
	size                  // a number of bytes
	duration              // a duration
	timeout               // a duration or off, which JSON writes as 0
	directory             // the path of a directory
	tools                 // the name of the tool of an emoji
	approvals             // ways to answer requests for approval
	identity              // ways to tell upstream the user
)

// kinds describes the values of all kinds but words and onOff: usage for Option.Usage, allowed for
// errors about the number of arguments, and must for errors about a duration.
var kinds = map[kind]struct{ usage, allowed, must string }{
	size:      {"size", "a size", ""},
	duration:  {"duration", "a duration", "a duration such as 500ms or 5s, and not negative"},
	timeout:   {"duration|off", "a duration or off", "a duration such as 30s, and not negative, or off (0 in JSON)"},
	directory: {"directory", "a directory", ""},
	tools:     {"'emoji name'", "an emoji and a name", ""},
	approvals: {"'way …'", approvalsUsage, ""},
	identity:  {"'placeholder …'", identityUsage, ""},
}

// Bounds of sizes in bytes. A frame of less than minSize could not even hold a chunk; maxSize
// keeps a typing error from taking all memory.
const (
	minSize = 1 << 10
	maxSize = 1 << 30
)

// wordsOf returns the allowed words as strings.
func wordsOf[T ~string](allowed []T) (all []string) {
	for _, a := range allowed {
		all = append(all, string(a))
	}
	return all
}

// choice joins words as in a sentence: a, b or c.
func choice(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// parse returns the value that text stands for. The kind of o is none of tools, approvals and
// identity.
func (o *Option) parse(text string) (any, error) {
	switch o.kind {
	case directory:
		return text, nil
	case size:
		if n, err := humanize.ParseBytes(text); err == nil && n >= minSize && n <= maxSize {
			return int64(n), nil
		}
		n, _ := humanize.ParseBytes(o.Default)
		return nil, o.invalid(text, fmt.Sprintf("a size from 1KiB to 1GiB, such as %s (%d bytes)", o.Default, n))
	case duration, timeout:
		if text == "off" && o.kind == timeout {
			return caddy.Duration(0), nil
		}
		if d, err := caddy.ParseDuration(text); err == nil && d >= 0 {
			return caddy.Duration(d), nil
		}
		return nil, o.invalid(text, kinds[o.kind].must)
	}
	if !slices.Contains(o.words, text) {
		return nil, o.invalid(text, choice(o.words))
	}
	if o.kind == onOff {
		return text == "on", nil
	}
	return text, nil
}

// check returns an error if value, which may be from JSON, is not allowed.
func (o *Option) check(value any) (err error) {
	switch v := value.(type) {
	case bool:
	case map[string]string:
		err = checkTools(v)
	case Approvals:
		err = v.check()
	case Identity:
		err = v.check()
	case caddy.Duration:
		d := time.Duration(v)
		if d > 0 && d < time.Millisecond { // a number that was not meant as nanoseconds
			return o.invalid(d.String(), "at least 1ms; a number in JSON is nanoseconds, so write a string such as \"5s\"")
		}
		_, err = o.parse(d.String())
	default:
		_, err = o.parse(fmt.Sprint(v))
	}
	return err
}

// invalid returns the error for a value that the configuration writes as shown.
func (o *Option) invalid(shown, must string) error {
	return fmt.Errorf("invalid %s %q: must be %s", o.Name, shown, must)
}

// checkTools reports the first tool that is not allowed, in the order of the
// emoji, so that the same configuration gives the same error.
func checkTools(all map[string]string) error {
	checked := make(map[string]string, len(all))
	for _, emoji := range slices.Sorted(maps.Keys(all)) {
		if err := addTool(checked, emoji, all[emoji]); err != nil {
			return err
		}
	}
	return nil
}

// addTool adds a tool to the map to. It returns an error if no marker can have the emoji, if the name is
// not allowed, or if the emoji is in to already. Emoji that differ only in the variation selector U+FE0F are equal.
func addTool(to map[string]string, emoji, name string) error {
	if _, err := rewrite.NewTools(map[string]string{emoji: name}); err != nil {
		return fmt.Errorf("invalid tool: %w", err)
	}
	for other, first := range to {
		if bareEmoji(other) == bareEmoji(emoji) {
			return fmt.Errorf("tool %s already specified as %s: use each emoji only once", emoji, first)
		}
	}
	to[emoji] = name
	return nil
}

// bareEmoji returns the emoji without the variation selector U+FE0F.
func bareEmoji(emoji string) string { return strings.ReplaceAll(emoji, "\ufe0f", "") }
