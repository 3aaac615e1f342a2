package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// The agent dies during its answer. The client gets an error that it can read instead of a
// connection that breaks off.
func ExampleProxy_Handler() {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent",`+
			`"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer agent.Close()
	upstream, err := url.Parse(agent.URL)
	if err != nil {
		panic(err)
	}

	p := proxy.New(proxy.DefaultOptions())
	sidecar := httptest.NewServer(p.Handler(httputil.NewSingleHostReverseProxy(upstream)))
	defer sidecar.Close()

	res, err := http.Post(sidecar.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true,"messages":[]}`))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	stream, err := io.ReadAll(res.Body)
	fmt.Print(string(stream))
	fmt.Println(err)
	// Output:
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}
	//
	// data: {"error":{"message":"the connection to the agent was lost before its answer was complete","type":"upstream_error","param":null,"code":"upstream_aborted"}}
	//
	// data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"hermes":{"completed":false,"partial":true,"failed":true,"error":"the connection to the agent was lost before its answer was complete","error_code":"agent_error"}}
	//
	// data: [DONE]
	//
	// <nil>
}
