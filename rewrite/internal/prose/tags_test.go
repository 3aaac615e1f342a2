package prose

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

func TestTags(t *testing.T) {
	separated := func(in string) (content, reasoning string) {
		c, r, _ := Split(jsonspan.Inside(jsonspan.Quote(in)), &contract.Options{Tools: marker.Hermes})
		return jsonspan.Unquote(`"` + string(c) + `"`), jsonspan.Unquote(`"` + string(r) + `"`)
	}
	for _, c := range prosetest.TaggedTexts {
		if strings.HasPrefix(c.Name, "unclosed") { // which a complete text keeps
			c.Content, c.Reasoning = c.In, ""
		}
		content, reasoning := separated(c.In)
		if content != c.Content || reasoning != c.Reasoning {
			t.Errorf("%s: content %q, reasoning %q, want %q and %q", c.Name, content, reasoning, c.Content, c.Reasoning)
		}
		if again, more := separated(content); again != content || more != "" {
			t.Errorf("%s: a second time: %q, %q", c.Name, again, more)
		}
	}
}
