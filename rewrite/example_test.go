package rewrite_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Bytes in, bytes out: pieces as they are read, and how upstream ended.
func Example() {
	pieces := []string{
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent",`,
		`"choices":[{"index":0,"delta":{"content":"<think>Greet.</think>Hello"},"finish_reason":null}]}` + "\n\n",
	}
	s := rewrite.New(&rewrite.Options{}, rewrite.Params{Active: true})
	for _, piece := range pieces {
		fmt.Print(string(s.Feed(nil, []byte(piece), time.Now())))
	}
	fmt.Print(string(s.Finish(nil, rewrite.CauseAborted))) // the connection was reset
	fmt.Println("chunks:", s.Summary().Chunks, "error:", s.Summary().Code)
	// Output:
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"reasoning_content":"Greet."},"finish_reason":null}]}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}
	//
	// data: {"error":{"message":"the connection to the agent was lost before its answer was complete","type":"upstream_error","param":null,"code":"upstream_aborted"}}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"hermes":{"completed":false,"partial":true,"failed":true,"error":"the connection to the agent was lost before its answer was complete","error_code":"agent_error"}}
	//
	// data: [DONE]
	//
	// chunks: 1 error: upstream_aborted
}

// The marker of a tool in an earlier answer does not reach the model, which would imitate it.
func ExampleHeal() {
	body := []byte(`{"messages":[{"role":"user","content":"List the files."},` +
		`{"role":"assistant","content":"` + "\\n`💻 ls`\\n" + `There are two."},{"role":"user","content":"Which?"}]}`)
	body, healed := rewrite.Heal(body, nil, nil)
	fmt.Println(string(body))
	fmt.Println("markers:", healed.Markers)
	// Output:
	// {"messages":[{"role":"user","content":"List the files."},{"role":"assistant","content":"There are two."},{"role":"user","content":"Which?"}]}
	// markers: 1
}

// An answer that is not streamed is repaired as a whole.
func ExampleRepairAnswer() {
	body := []byte(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":"<think>Greet.</think>Hello"},"finish_reason":"stop"}],"usage":{"total_tokens":9}}`)
	answer := rewrite.RepairAnswer(body, &rewrite.Options{}, nil)
	fmt.Println(string(answer.Body))
	// Output:
	// {"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","reasoning_content":"Greet."},"finish_reason":"stop"}],"usage":{"total_tokens":9}}
}

// reader repairs a stream that is read rather than written: what a wrapper of
// an http.RoundTripper puts around the body of a response.
type reader struct {
	body   io.Reader
	stream *rewrite.Stream
	in     [4 << 10]byte
	out    []byte // repaired and not read yet
	err    error
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, io.EOF // however upstream ended, the stream ends well
		}
		var n int
		n, r.err = r.body.Read(r.in[:])
		r.out = r.stream.Feed(r.out[:0], r.in[:n], time.Now())
		if r.err != nil {
			r.out = r.stream.Finish(r.out, cause(r.err))
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func cause(err error) rewrite.Cause {
	if errors.Is(err, io.EOF) {
		return rewrite.CauseEOF
	}
	return rewrite.CauseAborted
}

// The engine pushes, and can be pulled through a reader.
func ExampleStream() {
	upstream := strings.NewReader(
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"\n` + "`💻 ls`" + `\n"},"finish_reason":null}]}` + "\n\n" +
			`data: {"id":"chatcmpl-1","object":"chatParams.comp`) // and here it is cut
	s := rewrite.New(&rewrite.Options{Progress: rewrite.ProgressBare}, rewrite.Params{Active: true})
	repaired, err := io.ReadAll(&reader{body: upstream, stream: s})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(repaired))
	fmt.Println(s.Summary().Tools, "tool,", s.Summary().Code)
	// Output:
	// event: hermes.tool.progress
	// data: {"tool":"terminal","emoji":"💻","label":"ls","toolCallId":"call_ee64bef593d536091d1f0001","status":"running"}
	//
	// event: hermes.tool.progress
	// data: {"tool":"terminal","toolCallId":"call_ee64bef593d536091d1f0001","status":"completed"}
	//
	// data: {"error":{"message":"the agent's answer ended before it was complete","type":"upstream_error","param":null,"code":"upstream_incomplete"}}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"hermes":{"completed":false,"partial":false,"failed":true,"error":"the agent's answer ended before it was complete","error_code":"agent_error"}}
	//
	// data: [DONE]
	//
	// 1 tool, upstream_incomplete
}
