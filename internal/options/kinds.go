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
type kind interface {
	// usage returns what a value looks like.
	usage() string
	// allowed says in errors what the arguments of a line must be.
	allowed() string
	// parse returns the value of the arguments of a line, which are as many as they
	// must be. before is the value of the lines before it, nil for none.
	parse(o *Option, args []string, before any) (any, error)
	// check refuses a value that is not allowed. Its type is that of parse.
	check(o *Option, value any) error
}

// words is the kind of options that take one of a few words.
type words []string

func wordsOf[T ~string](allowed []T) words {
	w := make(words, len(allowed))
	for i, a := range allowed {
		w[i] = string(a)
	}
	return w
}

func (w words) usage() string { return strings.Join(w, "|") }

func (w words) allowed() string { return choice(w) }

func (w words) parse(o *Option, args []string, _ any) (any, error) {
	return args[0], w.check(o, args[0])
}

func (w words) check(o *Option, value any) error {
	if slices.Contains(w, value.(string)) {
		return nil
	}
	return fmt.Errorf("invalid %s %q: must be %s", o.Name, value, choice(w))
}

// choice writes the allowed values as a sentence does: a, b or c.
func choice(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// onOff is the kind of options that are on or off, a bool in JSON.
type onOff struct{ words }

func (k onOff) parse(o *Option, args []string, _ any) (any, error) {
	return args[0] == "on", k.words.check(o, args[0])
}

func (onOff) check(*Option, any) error { return nil }

// Bounds of sizes in bytes. A frame below the lower one could not even hold a
// chunk; the upper one keeps a typing error from taking all memory.
const (
	minSize = 1 << 10
	maxSize = 1 << 30
)

// size is the kind of options that take a number of bytes.
type size struct{}

func (size) usage() string { return "size" }

func (size) allowed() string { return "a size" }

func (size) parse(o *Option, args []string, _ any) (any, error) {
	n, err := humanize.ParseBytes(args[0])
	if err != nil || n < minSize || n > maxSize {
		return nil, invalidSize(o, args[0])
	}
	return int64(n), nil
}

func (size) check(o *Option, value any) error {
	if n := value.(int64); n < minSize || n > maxSize {
		return invalidSize(o, fmt.Sprint(n))
	}
	return nil
}

// invalidSize returns the error of a size; shown is how the configuration writes it.
func invalidSize(o *Option, shown string) error {
	n, _ := humanize.ParseBytes(o.Default)
	return fmt.Errorf("invalid %s %q: must be a size from 1KiB to 1GiB, such as %s (%d bytes)", o.Name, shown, o.Default, n)
}

// duration is the kind of options that take a duration.
type duration struct {
	off bool // the option may be off, which JSON writes as 0
}

func (d duration) usage() string {
	if d.off {
		return "duration|off"
	}
	return "duration"
}

func (d duration) allowed() string { return "a " + strings.Replace(d.usage(), "|", " or ", 1) }

func (d duration) parse(o *Option, args []string, _ any) (any, error) {
	if d.off && args[0] == "off" {
		return caddy.Duration(0), nil
	}
	t, err := caddy.ParseDuration(args[0])
	if err != nil || t < 0 {
		return nil, d.invalid(o, args[0])
	}
	return caddy.Duration(t), nil
}

// check refuses a negative duration, and one so short that it must be a number
// that was not meant as nanoseconds.
func (d duration) check(o *Option, value any) error {
	switch t := time.Duration(value.(caddy.Duration)); {
	case t == 0 || t >= time.Millisecond:
		return nil
	case t > 0:
		return fmt.Errorf("invalid %s %q: must be at least 1ms; a number in JSON is nanoseconds, so write a string such as \"5s\"", o.Name, t)
	default:
		return d.invalid(o, t.String())
	}
}

func (d duration) invalid(o *Option, shown string) error {
	if d.off {
		return fmt.Errorf("invalid %s %q: must be a duration such as 30s, not negative, or off (0 in JSON)", o.Name, shown)
	}
	return fmt.Errorf("invalid %s %q: must be a duration such as 500ms or 5s, not negative", o.Name, shown)
}

// directory is the kind of options that take the path of a directory.
type directory struct{}

func (directory) usage() string { return "directory" }

func (directory) allowed() string { return "a directory" }

func (directory) parse(_ *Option, args []string, _ any) (any, error) { return args[0], nil }

func (directory) check(*Option, any) error { return nil }

// tools is the kind of the option tool, which names the tool of an emoji.
type tools struct{}

func (tools) usage() string { return "'emoji name'" }

func (tools) allowed() string { return "an emoji and a name" }

func (tools) parse(_ *Option, args []string, before any) (any, error) {
	added, _ := before.(map[string]string)
	seen := make(map[string]string, len(added))
	for emoji, name := range added {
		seen[bareEmoji(emoji)] = name
	}
	if err := checkTool(seen, args[0], args[1]); err != nil {
		return nil, err
	}
	if added == nil {
		added = make(map[string]string)
	}
	added[args[0]] = args[1]
	return added, nil
}

func (tools) check(_ *Option, value any) error { return checkTools(value.(map[string]string)) }

// checkTools reports the first tool that is not allowed, in the order of the
// emoji, so that the same configuration gives the same error.
func checkTools(added map[string]string) error {
	seen := make(map[string]string, len(added))
	for _, emoji := range slices.Sorted(maps.Keys(added)) {
		if err := checkTool(seen, emoji, added[emoji]); err != nil {
			return err
		}
	}
	return nil
}

// checkTool refuses a tool that rewrite.CheckTool refuses, and an emoji that is
// among those seen, to which it is added. Emoji that differ only in the variation
// selector U+FE0F are the same.
func checkTool(seen map[string]string, emoji, name string) error {
	if err := rewrite.CheckTool(emoji, name); err != nil {
		return fmt.Errorf("invalid tool: %w", err)
	}
	bare := bareEmoji(emoji)
	if first, ok := seen[bare]; ok {
		return fmt.Errorf("tool %s already specified as %s: give each emoji once", emoji, first)
	}
	seen[bare] = name
	return nil
}

// bareEmoji returns the emoji without the variation selector U+FE0F.
func bareEmoji(emoji string) string { return strings.ReplaceAll(emoji, "\ufe0f", "") }
