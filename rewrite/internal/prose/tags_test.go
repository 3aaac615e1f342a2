package prose

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// separated runs tags over a text and returns its content and its reasoning.
func separated(in string) (content, reasoning string) {
	var tg tags
	var fc Fence
	var out, thought, held strings.Builder
	text := func(s string) {
		for _, r := range s {
			tg.sent(r)
			fc.Step(r)
		}
		out.WriteString(s)
	}
	again := false // a stretch after another has begun, and said nothing yet
	think := func(s string) {
		if again && s != "" {
			thought.WriteString("\n\n")
			again = false
		}
		thought.WriteString(s)
	}
	rs := []rune(in)
	for i := 0; i < len(rs); i++ {
		inside := tg.inside
		switch tg.step(rs[i], fc.Open()) {
		case stepText:
			text(string(rs[i]))
		case stepReasoning:
			think(string(rs[i]))
		case stepSpace:
		case stepMaybe:
			held.WriteRune(rs[i])
		case stepTag:
			held.Reset()
			again = tg.inside && strings.TrimSpace(thought.String()) != ""
		case stepClosed:
			held.Reset()
			i--
		case stepNot:
			if inside {
				think(held.String())
			} else {
				text(held.String())
			}
			held.Reset()
			i--
		}
	}
	inside := tg.inside
	switch {
	case tg.decide():
	case inside:
		think(held.String())
	default:
		text(held.String())
	}
	return out.String(), thought.String()
}

func TestTags(t *testing.T) {
	for _, c := range prosetest.TaggedTexts {
		content, reasoning := separated(c.In)
		if content != c.Content || reasoning != c.Reasoning {
			t.Errorf("%s: content %q, reasoning %q, want %q and %q", c.Name, content, reasoning, c.Content, c.Reasoning)
		}
		if again, more := separated(content); again != content || more != "" {
			t.Errorf("%s: a second time: %q, %q", c.Name, again, more)
		}
	}
}
