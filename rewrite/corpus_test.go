package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
)

// A stream of the corpus, from its index.
type corpusStream struct {
	File          string
	API           string
	FinishReasons []string `json:"finish_reasons"`
}

func TestStreamsOfOtherProvidersPassByteForByte(t *testing.T) {
	var index []corpusStream
	if err := json.Unmarshal([]byte(corpus(t, "index.json")), &index); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, c := range index {
		in := corpus(t, strings.Split(c.File, "/")...)
		p := chat
		switch c.API {
		case "chat":
			if !endsProperly(in) {
				counts["chat without an end"]++
				continue
			}
		default:
			p.Active = false
		}
		counts[c.API]++
		p.Usage = memory{}
		for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressOff}} {
			for _, cut := range []cutter{whole, atRandom(7, 500)} {
				out, sum := run(in, o, p, cut, CauseEOF)
				same(t, out, in, c.File+": bytes")
				if sum.Code != "" {
					t.Errorf("%s: %+v", c.File, sum)
				}
			}
		}
	}
	t.Log(counts)
	if counts["chat"] < 50 {
		t.Errorf("streams of the corpus: %v", counts)
	}
}

// endsProperly tells whether a chat stream has a finish chunk and [DONE].
func endsProperly(in string) bool {
	finish, done := false, false
	for _, e := range decode(in) {
		var c wireChunk
		if e.data == "[DONE]" {
			done = true
		} else if json.Unmarshal([]byte(e.data), &c) == nil {
			for _, choice := range c.Choices {
				finish = finish || choice.FinishReason != nil && *choice.FinishReason != "" && *choice.FinishReason != "error"
			}
		}
	}
	return finish && done
}
