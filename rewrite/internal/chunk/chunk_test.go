package chunk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
	"github.com/tidwall/gjson"
)

// facts returns the fields of v that are not zero, with the values at spans.
func facts(data []byte, v reflect.Value) (all []string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch zero, isSpan := reflect.Zero(f.Type()), f.Type() == reflect.TypeFor[jsonspan.Span](); {
		case name == "All" || name == "Choices" || name == "Usage" || f.Equal(zero):
		case isSpan:
			all = append(all, name+"="+string(jsonspan.Span{From: int(f.Field(0).Int()), To: int(f.Field(1).Int())}.Of(data)))
		case f.Kind() == reflect.Struct:
			all = append(all, facts(data, f)...)
		case f.Kind() == reflect.Bool:
			all = append(all, name)
		default:
			all = append(all, fmt.Sprint(name, "=", f))
		}
	}
	return all
}

// read returns what is read of data, or "" if it is no object.
func read(data string) string {
	var c Chunk
	if !c.Parse([]byte(data)) {
		return ""
	}
	return strings.Join(facts([]byte(data), reflect.ValueOf(c)), " ")
}

// chunks are chunks, whole and of odd shapes, and what is read of them.
var chunks = [][2]string{
	{`{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"x\n"},"finish_reason":null}]}`,
		`ID="a" Object="chat.completion.chunk" Created=1 Model="m" ChoicesArray Count=1 FirstOnly Delta={"role":"assistant","content":"x\n"} OnlyText HasRole Content="x\n" ContentKey=content Role="assistant" Text Begun=1`},
	{` { "choices" : [ { "index" : 0 , "delta" : { } , "finish_reason" : "stop" } ] , "usage" : { "prompt_tokens" : 0 , "completion_tokens" : 0 , "total_tokens" : 0 } } `,
		`Reported Zero ChoicesArray Count=1 FirstOnly Delta={ } OnlyText Finish="stop" Begun=1 Ended=1`},
	{`{"choices":[],"choices":[{"index":1,"delta":{"content":"x"},"delta":{"reasoning":"y","content":null}},{"text":"x","delta":{"content":"x"},"logprobs":{}}],"usage":null}`,
		`MoreErrors ChoicesArray Count=2 Delta={"content":"x"} OnlyText Content="x" ContentKey=content Repeat="x" More Reasoning Text Begun=3 ManyChoices`},
	{`{"choices":[{"delta":{"content":"x"}}],"choices":7,"usage":{"prompt_tokens":3},"usage":{}}`,
		`MoreErrors`},
	{`{"choices":[7,null,[{}],{"delta":3,"index":64},{"delta":{"tool_calls":[{}],"refusal":"","x":{"y":[1]}},"finish_reason":""}],"error":{"message":"e"},"hermes":{}}`,
		`Err={"message":"e"} Hermes={} ChoicesArray Count=5 Delta={"tool_calls":[{}],"refusal":"","x":{"y":[1]}} Other Calls Begun=1 ManyChoices`},
	{`{"tool":"terminal","emoji":"x","label":"l","toolCallId":"c","status":"running","event":{"type":"status"}}`,
		`Tool="terminal" Emoji="x" Label="l" CallID="c" Status="running" StatusLine={"type":"status"} Extra`},
	{`{"error":{"message":"m","type":null,"code":{"a":1},"message":"n"},"hermes":{"error":"e","completed":false}}`,
		`Err={"message":"m","type":null,"code":{"a":1},"message":"n"} Hermes={"error":"e","completed":false}`},
	{`{"error":{"param":1},"error":"x","hermes":{"error":1},"hermes":[]}`,
		`Err="x" Hermes=[] MoreErrors`},
	{`{"t\u006fol":"a","tool":1,"\u0065rror":{"message":"m"},"error":null,"choices":[{"d\u0065lta":{"c\u006fntent":"x"},"finish_\u0072eason":"stop"}],"us\u0061ge":{"total_t\u006fkens":0}}`,
		`Err={"message":"m"} Tool=1 Reported MoreErrors Escaped ChoicesArray Count=1 FirstOnly Delta={"c\u006fntent":"x"} OnlyText Content="x" ContentKey=c\u006fntent Finish="stop" Text Begun=1 Ended=1`},
	{`{"error":{},"error":"x","error":false,"error":""}`, `Err="x" MoreErrors`},
	{`{"error":null,"error":[]}`, `Err=[] MoreErrors`},
	{`{"error":500,"error":null}`, `Err=500 MoreErrors`},
	{`{"error":"x","error":true}`, `Err=true MoreErrors`},
	{`{}`, ``},
	{`{"choices":{}}`, ``},
	{`{"choices":[{}]}`, `ChoicesArray Count=1 FirstOnly Begun=1`},
	{`{"usage":[]}`, ``},
	{`{"choices":[{"text":"a","delta":{"content":"b"}}]}`,
		`ChoicesArray Count=1 FirstOnly Delta={"content":"b"} OnlyText Content="b" ContentKey=content More Text Begun=1`},
}

func TestWhatIsReadOfAChunk(t *testing.T) {
	for _, c := range chunks {
		if got := read(c[0]); got != c[1] {
			t.Errorf("%s:\n%s,\nwant\n%s", c[0], got, c[1])
		}
	}
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
	var seeds []string
	for _, c := range chunks {
		seeds = append(seeds, c[0])
		for i := range len(c[0]) + 1 {
			checkChunk(t, []byte(c[0][:i]))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 50000 { // parts of them, joined, and a byte or two changed
		one, two := seeds[r.IntN(len(seeds))], seeds[r.IntN(len(seeds))]
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
		f.Add([]byte(c[0]))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkChunk(t, data) })
}
