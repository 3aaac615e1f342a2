package queuehttp_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuehttp"
)

// Four clients ask at once an agent that works for one of them at a time.
func ExampleQueue() {
	var lines queue.Lines
	q := queuehttp.Queue{
		Proxy: proxy.New(proxy.DefaultOptions()),
		Turn: func(r *http.Request) (*queue.Turn, error) {
			client := queue.Client(sha256.Sum256([]byte(r.Header.Get("Authorization"))))
			return lines.Join("agent", queue.Options{Runs: 1, Wait: time.Minute, Waiting: 100}, client)
		},
	}
	var running, most atomic.Int64
	agent := func(w http.ResponseWriter, _ *http.Request) error {
		n := running.Add(1)
		defer running.Add(-1)
		most.Store(max(n, most.Load()))
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"object":"chat.completion"}`)
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := q.Serve(w, r, agent); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
	defer server.Close()

	var clients sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		clients.Go(func() {
			res, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[]}`))
			if err != nil {
				return
			}
			defer res.Body.Close()
			if res.StatusCode == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	clients.Wait()
	fmt.Println("answered:", answered.Load(), "at once:", most.Load())
	// Output:
	// answered: 4 at once: 1
}
