package rewrite

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
	"github.com/tidwall/gjson"
)

// modelChunk reads a chunk level by level: each object is found first, and then
// gone through again. What it is given is well formed.
type modelChunk struct{ chunk }

func (c *modelChunk) parse(data []byte) {
	c.chunk = chunk{open: bytes.IndexByte(data, '{'), shut: bytes.LastIndexByte(data, '}')}
	eachIn(data, jsonspan.Span{From: c.open, To: c.shut + 1}, func(key, value jsonspan.Span) { c.member(string(key.Of(data)), value) })
	c.readChoices(data)
	c.tokens = c.readUsage(data)
	c.fault = fault{
		lastIn(data, c.err, "message"), lastIn(data, c.err, "type"), lastIn(data, c.err, "param"), lastIn(data, c.err, "code"),
		lastIn(data, c.hermes, "error"), false, false,
	}
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
			if key.Is(data, name) {
				found = value
			}
		})
	}
	return found
}

func (c *modelChunk) member(name string, value jsonspan.Span) {
	switch name {
	case "id":
		c.id = value
	case "object":
		c.object = value
	case "created":
		c.created = value
	case "model":
		c.model = value
	case "choices":
		c.choices = value
	case "usage":
		c.usage = value
	case "error":
		c.twins = c.twins || c.err.Ok()
		c.err = value
	case "hermes":
		c.twins = c.twins || c.hermes.Ok()
		c.hermes = value
	case "tool":
		c.tool = value
	case "emoji":
		c.emoji = value
	case "label":
		c.label = value
	case "toolCallId":
		c.callID = value
	case "status":
		c.status = value
	case "event":
		c.statusLine = value
		c.extra = true
	default:
		c.extra = true
		c.twins = c.twins || strings.Contains(name, `\`)
	}
}

func (c *modelChunk) readChoices(data []byte) {
	if !c.choices.Ok() || data[c.choices.From] != '[' {
		return
	}
	c.list = true
	eachIn(data, c.choices, func(_, choice jsonspan.Span) { c.readChoice(data, choice) })
}

func (c *modelChunk) readChoice(data []byte, choice jsonspan.Span) {
	c.count++
	if !choice.IsObject(data) {
		return
	}
	var index int64
	var finish, text jsonspan.Span
	before := c.speech
	eachIn(data, choice, func(key, value jsonspan.Span) {
		switch string(key.Of(data)) {
		case "index":
			index = jsonspan.SmallInt(value.Of(data))
		case "delta":
			c.content, c.role, c.alone, c.bare = jsonspan.Span{}, jsonspan.Span{}, false, false
			if value.From == lastIn(data, choice, "delta").From { // the last
				c.speech = before
			}
			c.readDelta(data, value)
		case "finish_reason":
			finish = value
		case "text": // some providers say all twice
			text = value
		default:
			c.more = c.more || !value.Is(data, "null")
			c.errors = c.errors || key.Is(data, "error") || strings.Contains(string(key.Of(data)), `\`)
		}
	})
	c.repeat = jsonspan.Span{}
	if text.IsString(data) && c.content.Ok() && bytes.Equal(text.Of(data), c.content.Of(data)) {
		c.repeat = text
	}
	c.more = c.more || text.Ok() && !c.repeat.Ok() && filled(text.Of(data))
	c.begun |= bit(index)
	c.further = c.further || index != 0
	if finish.IsString(data) && finish.To-finish.From > 2 { // some providers send ""
		c.finish = finish
		c.ended |= bit(index)
	}
	c.index = c.count == 1 && index == 0
}

func (c *modelChunk) readDelta(data []byte, delta jsonspan.Span) {
	if !delta.IsObject(data) {
		return
	}
	c.delta = delta
	c.alone, c.bare = true, true
	last := lastIn(data, delta, "content")
	eachIn(data, delta, func(key, value jsonspan.Span) {
		switch string(key.Of(data)) {
		case "content":
			c.contentKey, c.content = key, jsonspan.Span{}
			if text := c.text; value != last {
				c.readContent(data, value)
				c.text = text
			} else {
				c.readContent(data, value)
			}
		case "reasoning_content", "reasoning":
			c.alone, c.bare = false, false
			c.readThought(data, value)
		case "role":
			c.alone = false
			if value.IsString(data) && value.To-value.From < maxEnvelope {
				c.role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.alone, c.bare = false, false
			c.acts = c.acts || filled(value.Of(data))
			c.other = c.other || c.acts
		default:
			c.alone, c.bare = false, false
			c.other = c.other || filled(value.Of(data))
		}
	})
}

func (c *modelChunk) readUsage(data []byte) (u usage) {
	if !c.usage.IsObject(data) {
		return u
	}
	var n, zeros int
	eachIn(data, c.usage, func(key, value jsonspan.Span) {
		count := max(0, jsonspan.SmallInt(value.Of(data)))
		switch string(key.Of(data)) {
		case "prompt_tokens":
			u.input = count
		case "completion_tokens":
			u.output = count
		case "total_tokens":
		default:
			return
		}
		n++
		switch first := data[value.From]; {
		case value.Is(data, "0"):
			zeros++
		case first >= '1' && first <= '9':
			u.counts = true
		}
	})
	u.reported, u.zero = n > 0, zeros == 3 && n == 3
	return u
}

// checkChunk compares what chunk.parse reads with the model.
func checkChunk(t *testing.T, data []byte) {
	t.Helper()
	var got chunk
	var want modelChunk
	valid := firstByte(data) == '{' && jsonspan.Valid(data)
	if ok := got.parse(data); ok != valid {
		t.Fatalf("%q: parsed is %v, well formed %v", data, ok, valid)
	}
	if !valid {
		return
	}
	if want.parse(data); got != want.chunk {
		t.Fatalf("%q:\n%+v, want\n%+v", data, got, want.chunk)
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
	`{}`, `{"choices":{}}`, `{"choices":[{}]}`, `{"usage":[]}`, `{"choices":[{"text":"a","delta":{"content":"b"}}]}`,
}

func TestChunkIsReadAsTheModelReadsIt(t *testing.T) {
	for _, r := range recordings(t) {
		for _, f := range frames(r.body) {
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
		if got := new(chunk).parse([]byte(data)); got != want {
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
