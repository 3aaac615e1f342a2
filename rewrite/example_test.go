package rewrite_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

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
