package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

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
