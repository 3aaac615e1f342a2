// The driver of github.com/sashabaranov/go-openai, in the loop for chat
// completions that its documentation shows.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hermes-sidecar/hermes-sidecar/integration/clients/go/driver"
	openai "github.com/sashabaranov/go-openai"
)

func main() { driver.Run("github.com/sashabaranov/go-openai", ask) }

func ask(c driver.Case, r *driver.Result) error {
	err := stream(c, r)
	if apiError, ok := errors.AsType[*openai.APIError](err); ok {
		return &driver.Error{Type: "*openai.APIError", Message: apiError.Message, Code: fmt.Sprint(apiError.Code)}
	}
	return err
}

func stream(c driver.Case, r *driver.Result) error {
	config := openai.DefaultConfig("key")
	config.BaseURL = c.BaseURL
	client := openai.NewClientWithConfig(config)
	stream, err := client.CreateChatCompletionStream(context.Background(), openai.ChatCompletionRequest{
		Model:    "hermes-agent",
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: c.Prompt}},
		Stream:   true,
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.Text += response.Choices[0].Delta.Content
		r.Reasoning += response.Choices[0].Delta.ReasoningContent
		r.End(string(response.Choices[0].FinishReason))
	}
}
