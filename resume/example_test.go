package resume_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// A client sends its request again with the same key. It gets the same answer, and the handler is
// called once.
func ExampleResume_Handler() {
	calls := 0
	agent := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: Hello\n\ndata: [DONE]\n\n")
	})
	server := httptest.NewServer(resume.New(resume.DefaultOptions()).Handler(agent))
	defer server.Close()

	for range 2 {
		req, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(`{"stream":true}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(resume.KeyHeader, "answer-1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		stream, err := io.ReadAll(res.Body)
		if err != nil {
			panic(err)
		}
		_ = res.Body.Close()
		fmt.Printf("replayed: %q\n", res.Header.Get(resume.ReplayedHeader))
		fmt.Print(strings.ReplaceAll(string(stream), res.Header.Get(resume.StreamHeader), "ID"))
	}
	fmt.Println("calls:", calls)
	// Output:
	// replayed: ""
	// data: Hello
	// id: ID/1
	//
	// data: [DONE]
	// id: ID/2
	//
	// replayed: "true"
	// data: Hello
	// id: ID/1
	//
	// data: [DONE]
	// id: ID/2
	//
	// calls: 1
}
