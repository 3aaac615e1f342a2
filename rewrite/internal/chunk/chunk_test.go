package chunk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
	"github.com/tidwall/gjson"
)

// chunks are chunks, whole and of odd shapes.
var chunks = []string{
	`{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"x\n"},"finish_reason":null}]}`,
	` { "choices" : [ { "index" : 0 , "delta" : { } , "finish_reason" : "stop" } ] , "usage" : { "prompt_tokens" : 0 , "completion_tokens" : 0 , "total_tokens" : 0 } } `,
	`{"choices":[],"choices":[{"index":1,"delta":{"content":"x"},"delta":{"reasoning":"y","content":null}},{"text":"x","delta":{"content":"x"},"logprobs":{}}],"usage":null}`,
	`{"choices":[{"delta":{"content":"x"}}],"choices":7,"usage":{"prompt_tokens":3},"usage":{}}`,
	`{"choices":[7,null,[{}],{"delta":3,"index":64},{"delta":{"tool_calls":[{}],"refusal":"","x":{"y":[1]}},"finish_reason":""}],"error":{"message":"e"},"hermes":{}}`,
	`{"tool":"terminal","emoji":"x","label":"l","toolCallId":"c","status":"running","event":{"type":"status"}}`,
	`{"error":{"message":"m","type":null,"code":{"a":1},"message":"n"},"hermes":{"error":"e","completed":false}}`,
	`{"error":{"param":1},"error":"x","hermes":{"error":1},"hermes":[]}`,
	`{"t\u006fol":"a","tool":1,"\u0065rror":{"message":"m"},"error":null,"choices":[{"d\u0065lta":{"c\u006fntent":"x"},"finish_\u0072eason":"stop"}],"us\u0061ge":{"total_t\u006fkens":0}}`,
	`{"error":{},"error":"x","error":false,"error":""}`,
	`{"error":null,"error":[]}`,
	`{"error":500,"error":null}`,
	`{"error":"x","error":true}`,
	`{}`,
	`{"choices":{}}`,
	`{"choices":[{}]}`,
	`{"usage":[]}`,
	`{"choices":[{"text":"a","delta":{"content":"b"}}]}`,
}

// checkChunk checks that data is parsed if it is a well-formed object, and that the values
// are those of the last members with their names.
func checkChunk(t *testing.T, data []byte) {
	t.Helper()
	var c Chunk
	valid := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && jsonspan.Valid(data)
	if ok := c.Parse(data); ok != valid {
		t.Fatalf("%q: parsed is %v, well formed %v", data, ok, valid)
	}
	if !valid {
		return
	}
	want := map[string]string{}
	gjson.ParseBytes(data).ForEach(func(name, value gjson.Result) bool {
		want[jsonspan.Unquote(name.Raw)] = value.Raw
		return true
	})
	for name, v := range map[string]jsonspan.Span{
		"id": c.ID, "object": c.Object, "created": c.Created, "model": c.Model, "choices": c.Choices, "usage": c.Usage, "hermes": c.Hermes,
		"tool": c.Tool, "emoji": c.Emoji, "label": c.Label, "toolCallId": c.CallID, "status": c.Status, "event": c.StatusLine,
	} {
		if got := string(v.Of(data)); got != want[name] {
			t.Fatalf("%q: %s is %s, want %s", data, name, got, want[name])
		}
	}
	if _, ok := want["error"]; ok != c.Err.Ok() {
		t.Fatalf("%q: has an error: %v, want %v", data, c.Err.Ok(), ok)
	}
}

func TestChunksAreReadAsGJSONReadsThem(t *testing.T) {
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
	for _, c := range chunks {
		for i := range len(c) + 1 {
			checkChunk(t, []byte(c[:i]))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 50000 { // parts of them, joined, and a byte or two changed
		one, two := chunks[r.IntN(len(chunks))], chunks[r.IntN(len(chunks))]
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

// nearChunk are the bytes that turn a chunk into something like it.
const nearChunk = `{}[]",:0123-+.eEtruefalsn\ud ` + "\n\t\x00\x80"

func TestChunkIsNestedNoMoreThanMaxDepth(t *testing.T) {
	for depth, want := range map[int]bool{jsonspan.MaxDepth - 4: true, jsonspan.MaxDepth - 3: false, 1 << 20: false} {
		data := `{"choices":[{"delta":{"content":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}]}`
		if got := new(Chunk).Parse([]byte(data)); got != want {
			t.Errorf("%d deep: %v", depth, got)
		}
	}
}

func FuzzChunk(f *testing.F) {
	for _, c := range chunks {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkChunk(t, data) })
}
