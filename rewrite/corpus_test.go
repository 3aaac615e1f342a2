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
		p := chatParams
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
			for _, cut := range []cutter{inOne, atRandom(7, 500)} {
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

// A response of another provider that is cut between two events, or in one,
// keeps those before and fails; what it fails with has the response's members.
func TestResponsesOfOtherProvidersCut(t *testing.T) {
	var index []corpusStream
	if err := json.Unmarshal([]byte(corpus(t, "index.json")), &index); err != nil {
		t.Fatal(err)
	}
	type wire struct {
		Type     string
		Number   *int `json:"sequence_number"`
		Response map[string]json.RawMessage
	}
	n := 0
	for _, c := range index {
		if c.API != "responses" {
			continue
		}
		fs := frames(corpus(t, strings.Split(c.File, "/")...))
		var shown wire
		for i, last := 0, -1; i < len(fs); i++ {
			var e wire
			if len(decode(fs[i])) > 0 && json.Unmarshal([]byte(decode(fs[i])[0].data), &e) == nil {
				if e.Number != nil {
					last = max(last, *e.Number)
				}
				if e.Response != nil {
					shown = e
				}
			}
			if e.Type == "response.completed" {
				break
			}
			if shown.Response == nil || i%7 > 1 {
				continue
			}
			in := strings.Join(fs[:i+1], "")
			out, _ := run(in+fs[i+1][:len(fs[i+1])/2], Options{}, Params{}, atRandom(5, 300), CauseAborted)
			rest, ok := strings.CutPrefix(out, in)
			events := decode(rest)
			var failed wire
			if !ok || len(events) != 1 || json.Unmarshal([]byte(events[0].data), &failed) != nil || failed.Type != "response.failed" ||
				last >= 0 && (failed.Number == nil || *failed.Number != last+1) || (decode(in)[0].name == "message") != (events[0].name == "message") {
				t.Errorf("%s cut behind frame %d: %q", c.File, i, rest)
				break
			}
			for name, value := range shown.Response {
				if got := failed.Response[name]; string(got) != string(value) && name != "status" && name != "error" {
					t.Errorf("%s: member %s is %s, want %s", c.File, name, got, value)
				}
			}
			n++
		}
	}
	if t.Logf("%d cuts", n); n < 100 {
		t.Errorf("%d cuts only", n)
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
