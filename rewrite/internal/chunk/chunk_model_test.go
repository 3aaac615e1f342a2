package chunk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
	"github.com/tidwall/gjson"
)

// modelChunk reads a chunk level by level: each object is found first, and then
// gone through again. What it is given is well formed.
type modelChunk struct{ Chunk }

func (c *modelChunk) parse(data []byte) {
	c.Chunk = Chunk{Open: bytes.IndexByte(data, '{'), Shut: bytes.LastIndexByte(data, '}')}
	eachIn(data, jsonspan.Span{From: c.Open, To: c.Shut + 1}, func(key, value jsonspan.Span) { c.member(data, key, value) })
	c.readChoices(data)
	c.Tokens = c.readUsage(data)
}

// eachIn calls each with the names and the values in the object, or the array, at v.
func eachIn(data []byte, v jsonspan.Span, each func(key, value jsonspan.Span)) {
	at := func(r gjson.Result) jsonspan.Span {
		return jsonspan.Span{From: v.From + r.Index, To: v.From + r.Index + len(r.Raw)}
	}
	gjson.ParseBytes(v.Of(data)).ForEach(func(key, value gjson.Result) bool {
		if data[v.From] == '[' {
			each(jsonspan.Span{}, at(value))
		} else {
			each(at(key).Inner(), at(value))
		}
		return true
	})
}

// lastIn returns the value of the last member with the name in the object at v.
func lastIn(data []byte, v jsonspan.Span, name string) (found jsonspan.Span) {
	if v.IsObject(data) {
		eachIn(data, v, func(key, value jsonspan.Span) {
			if meaning(data, key) == name {
				found = value
			}
		})
	}
	return found
}

// meaning returns what the name at key means.
func meaning(data []byte, key jsonspan.Span) string {
	return jsonspan.Unquote(`"` + string(key.Of(data)) + `"`)
}

func (c *modelChunk) member(data []byte, key, value jsonspan.Span) {
	name := meaning(data, key)
	if slices.Contains([]string{"tool", "emoji", "label", "toolCallId", "status"}, name) {
		c.Escaped = c.Escaped || strings.Contains(string(key.Of(data)), `\`)
	}
	switch name {
	case "id":
		c.ID = value
	case "object":
		c.Object = value
	case "created":
		c.Created = value
	case "model":
		c.Model = value
	case "choices":
		c.MoreErrors = c.MoreErrors || c.Choices.Ok()
		c.Choices = value
	case "usage":
		c.Usage = value
	case "error":
		c.MoreErrors = c.MoreErrors || c.Err.Ok()
		says := func(v jsonspan.Span) bool {
			return v.Ok() && !slices.Contains([]string{"null", "false", `""`, "[]", "{}"}, string(v.Of(data)))
		}
		if says(value) || !says(c.Err) {
			c.Err = value
		}
	case "hermes":
		c.MoreErrors = c.MoreErrors || c.Hermes.Ok()
		c.Hermes = value
	case "tool":
		c.Tool = value
	case "emoji":
		c.Emoji = value
	case "label":
		c.Label = value
	case "toolCallId":
		c.CallID = value
	case "status":
		c.Status = value
	case "event":
		c.StatusLine = value
		c.Extra = true
	default:
		c.Extra = true
	}
}

func (c *modelChunk) readChoices(data []byte) {
	if !c.Choices.Ok() || data[c.Choices.From] != '[' {
		return
	}
	c.ChoicesArray = true
	eachIn(data, c.Choices, func(_, choice jsonspan.Span) { c.readChoice(data, choice) })
}

func (c *modelChunk) readChoice(data []byte, choice jsonspan.Span) {
	c.Count++
	if !choice.IsObject(data) {
		return
	}
	var index int64
	var finish, text jsonspan.Span
	before := c.speech
	eachIn(data, choice, func(key, value jsonspan.Span) {
		switch meaning(data, key) {
		case "index":
			index = jsonspan.SmallInt(value.Of(data))
		case "delta":
			c.Content, c.Role, c.OnlyContent, c.OnlyContentRole = jsonspan.Span{}, jsonspan.Span{}, false, false
			if value.From == lastIn(data, choice, "delta").From { // the last
				c.speech = before
			}
			c.readDelta(data, value)
		case "finish_reason":
			finish = value
		case "text": // some providers say all twice
			text = value
		default:
			c.More = c.More || !value.Is(data, "null")
			name := meaning(data, key)
			c.ChoiceErrors = c.ChoiceErrors || name == "error" || name == "hermes"
		}
	})
	c.Repeat = jsonspan.Span{}
	if text.IsString(data) && c.Content.Ok() && bytes.Equal(text.Of(data), c.Content.Of(data)) {
		c.Repeat = text
	}
	c.More = c.More || text.Ok() && !c.Repeat.Ok() && Filled(text.Of(data))
	c.Begun |= bit(index)
	c.ManyChoices = c.ManyChoices || index != 0
	if finish.IsString(data) && finish.To-finish.From > 2 { // some providers send ""
		c.Finish = finish
		c.Ended |= bit(index)
	}
	c.FirstOnly = c.Count == 1 && index == 0
}

func (c *modelChunk) readDelta(data []byte, delta jsonspan.Span) {
	if !delta.IsObject(data) {
		return
	}
	c.OnlyContent = !c.Delta.Ok()
	c.OnlyContentRole = c.OnlyContent
	c.Delta = delta
	last := lastIn(data, delta, "content")
	eachIn(data, delta, func(key, value jsonspan.Span) {
		switch meaning(data, key) {
		case "content":
			if c.Content.Ok() {
				c.OnlyContent, c.OnlyContentRole = false, false
			}
			c.ContentKey, c.Content = key, jsonspan.Span{}
			if !value.IsString(data) {
				c.OnlyContent, c.OnlyContentRole = false, false
				c.Other = c.Other || Filled(value.Of(data))
				return
			}
			c.Content = value
			if value == last {
				c.Text = c.Text || jsonspan.HasText(value.Inner().Of(data))
			}
		case "reasoning_content", "reasoning":
			c.OnlyContent, c.OnlyContentRole = false, false
			if value.IsString(data) {
				c.ReasoningValue = value
				c.ReasoningCount++
				c.Reasoning = c.Reasoning || jsonspan.HasText(value.Inner().Of(data))
			}
		case "role":
			c.OnlyContent = false
			if value.IsString(data) && value.To-value.From < MaxEnvelope {
				c.Role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.OnlyContent, c.OnlyContentRole = false, false
			c.Calls = c.Calls || Filled(value.Of(data))
			c.Other = c.Other || c.Calls
		default:
			c.OnlyContent, c.OnlyContentRole = false, false
			c.Other = c.Other || Filled(value.Of(data))
		}
	})
}

func (c *modelChunk) readUsage(data []byte) (u Usage) {
	if !c.Usage.IsObject(data) {
		return u
	}
	var n, zeros int
	eachIn(data, c.Usage, func(key, value jsonspan.Span) {
		count := max(0, jsonspan.SmallInt(value.Of(data)))
		switch meaning(data, key) {
		case "prompt_tokens":
			u.Input = count
		case "completion_tokens":
			u.Output = count
		case "total_tokens":
		default:
			return
		}
		n++
		switch first := data[value.From]; {
		case value.Is(data, "0"):
			zeros++
		case first >= '1' && first <= '9':
			u.Counts = true
		}
	})
	u.Reported, u.Zero = n > 0, zeros == 3 && n == 3
	return u
}

// checkChunk compares what chunk.parse reads with the model.
func checkChunk(t *testing.T, data []byte) {
	t.Helper()
	var got Chunk
	var want modelChunk
	valid := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && jsonspan.Valid(data)
	if ok := got.Parse(data); ok != valid {
		t.Fatalf("%q: parsed is %v, well formed %v", data, ok, valid)
	}
	if !valid {
		return
	}
	if want.parse(data); got != want.Chunk {
		t.Fatalf("%q:\n%+v, want\n%+v", data, got, want.Chunk)
	}
}

// chunkSeeds are chunks, whole and of odd shapes.
var chunkSeeds = []string{
	`{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"x\n"},"finish_reason":null}]}`,
	` { "choices" : [ { "index" : 0 , "delta" : { } , "finish_reason" : "stop" } ] , "usage" : { "prompt_tokens" : 0 , "completion_tokens" : 0 , "total_tokens" : 0 } } `,
	`{"choices":[],"choices":[{"index":1,"delta":{"content":"x"},"delta":{"reasoning":"y","content":null}},{"text":"x","delta":{"content":"x"},"logprobs":{}}],"usage":null}`,
	`{"choices":[{"delta":{"content":"x"}}],"choices":7,"usage":{"prompt_tokens":3},"usage":{}}`,
	`{"choices":[7,null,[{}],{"delta":3,"index":64},{"delta":{"tool_calls":[{}],"refusal":"","x":{"y":[1]}},"finish_reason":""}],"error":{"message":"e"},"hermes":{}}`,
	`{"tool":"terminal","emoji":"x","label":"l","toolCallId":"c","status":"running","event":{"type":"status"}}`,
	`{"error":{"message":"m","type":null,"code":{"a":1},"message":"n"},"hermes":{"error":"e","completed":false}}`, `{"error":{"param":1},"error":"x","hermes":{"error":1},"hermes":[]}`,
	`{"t\u006fol":"a","tool":1,"\u0065rror":{"message":"m"},"error":null,"choices":[{"d\u0065lta":{"c\u006fntent":"x"},"finish_\u0072eason":"stop"}],"us\u0061ge":{"total_t\u006fkens":0}}`,
	`{"error":{},"error":"x","error":false,"error":""}`, `{"error":null,"error":[]}`,
	`{}`, `{"choices":{}}`, `{"choices":[{}]}`, `{"usage":[]}`, `{"choices":[{"text":"a","delta":{"content":"b"}}]}`,
}

func TestChunkIsReadAsTheModelReadsIt(t *testing.T) {
	all, err := filepath.Glob("../../../testdata/captures/*/*.sse")
	if err != nil || len(all) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, path := range all {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.SplitAfter(string(body), "\n\n") {
			var parsed sse.Frame
			parsed.Parse([]byte(f))
			checkChunk(t, parsed.Data)
		}
	}
	for _, s := range chunkSeeds {
		for i := range len(s) + 1 {
			checkChunk(t, []byte(s[:i]))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 200000 { // parts of them, joined, and a byte or two changed
		one, two := chunkSeeds[r.IntN(len(chunkSeeds))], chunkSeeds[r.IntN(len(chunkSeeds))]
		b := []byte(one)
		if i := strings.IndexByte(two, ','); i > 0 && r.IntN(2) == 0 {
			b = append(bytes.TrimSuffix(bytes.TrimSpace(b), []byte("}")), two[i:]...)
		}
		for range r.IntN(3) {
			b[r.IntN(len(b))] = nearChunk[r.IntN(len(nearChunk))]
		}
		checkChunk(t, b)
	}
}

func TestChunkIsNestedNoMoreThanMaxDepth(t *testing.T) {
	for depth, want := range map[int]bool{jsonspan.MaxDepth - 4: true, jsonspan.MaxDepth - 3: false, 1 << 20: false} {
		data := `{"choices":[{"delta":{"content":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}]}`
		if got := new(Chunk).Parse([]byte(data)); got != want {
			t.Errorf("%d deep: %v", depth, got)
		}
	}
}

func FuzzChunk(f *testing.F) {
	for _, s := range chunkSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkChunk(t, data) })
}

// nearChunk are the bytes that turn a chunk into something like it.
const nearChunk = `{}[]",:0123-+.eEtruefalsn\ud ` + "\n\t\x00\x80"
