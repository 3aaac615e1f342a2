package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// One run at a time: the second client's request waits until the first one's has ended.
func Example() {
	var lines queue.Lines
	options := queue.Options{Runs: 1, Wait: time.Minute, Waiting: 10}

	first, err := lines.Join("agent", options, queue.Client{1})
	if err != nil {
		panic(err)
	}
	fmt.Println(first.Wait(context.Background(), nil))

	second, err := lines.Join("agent", options, queue.Client{2})
	if err != nil {
		panic(err)
	}
	fmt.Println("waiting:", lines.Stats().Waiting)
	first.Done()
	fmt.Println(second.Wait(context.Background(), nil))
	second.Done()
	// Output:
	// <nil>
	// waiting: 1
	// <nil>
}

// A request that finds no room to wait is not admitted.
func ExampleLines_Join() {
	var lines queue.Lines
	options := queue.Options{Runs: 1}
	turn, err := lines.Join("agent", options, queue.Client{1})
	if err != nil {
		panic(err)
	}
	defer turn.Done()
	_, err = lines.Join("agent", options, queue.Client{2})
	fmt.Println(err)
	// Output:
	// too many requests are waiting for the agent
}
