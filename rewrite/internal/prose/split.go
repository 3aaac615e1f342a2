package prose

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Split takes the reasoning between tags out of a complete text. It returns the content
// that is left, the reasoning, and the number of its stretches. All texts are insides of
// JSON strings.
//
// Split leaves the marker lines that o strips in the content. The caller removes them, so
// that a message may open behind one.
func Split(text []byte, o *contract.Options) (content, reasoning []byte, stretches int) {
	var t State
	rules := Rules{Options: o}
	for from := 0; from < len(text); from = t.in.To {
		t.Read(text, jsonspan.Span{From: from, To: len(text)}, &rules, true)
		for i := range t.Parts {
			k := t.Part(i)
			k.Front = t.Front(i, &k)
			if t.Parts[i].Reasoning {
				reasoning = k.AppendTo(reasoning, text)
			} else {
				content = k.AppendTo(content, text)
			}
		}
		rules.Reasoned = rules.Reasoned || t.Reasoned
		stretches += t.Stretches
	}
	return content, reasoning, stretches
}
