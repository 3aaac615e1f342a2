// The driver of github.com/openai/openai-go/v3, in the loop for chat completions
// that its documentation shows.
package main

import (
	"context"
	"errors"

	"github.com/hermes-sidecar/hermes-sidecar/integration/clients/go/driver"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() { driver.Run("github.com/openai/openai-go/v3", ask) }

func ask(c driver.Case, r *driver.Result) error {
	options := []option.RequestOption{option.WithBaseURL(c.BaseURL), option.WithAPIKey("key")}
	if c.Key != "" {
		options = append(options, option.WithHeader("Idempotency-Key", c.Key))
	}
	client := openai.NewClient(options...)
	params := openai.ChatCompletionNewParams{
		Model:    "hermes-agent",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Prompt)},
	}
	if c.Whole {
		completion, err := client.Chat.Completions.New(context.Background(), params)
		if err != nil {
			return failure(err)
		}
		r.Text = completion.Choices[0].Message.Content
		return nil
	}
	stream := client.Chat.Completions.NewStreaming(context.Background(), params)
	defer stream.Close()
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		chunk := stream.Current()
		acc.AddChunk(chunk)
		r.Tool(chunk.JSON.ExtraFields["tool"].Raw(), chunk.JSON.ExtraFields["status"].Raw())
		if len(chunk.Choices) > 0 {
			r.Text += chunk.Choices[0].Delta.Content
			r.Think(chunk.Choices[0].Delta.JSON.ExtraFields["reasoning_content"].Raw())
			r.End(chunk.Choices[0].FinishReason)
		}
	}
	return failure(stream.Err())
}

// failure is what a program reads in an error.
func failure(err error) error {
	if apierr, ok := errors.AsType[*openai.Error](err); ok {
		return &driver.Error{Type: "*openai.Error", Message: apierr.Message, Code: apierr.Code}
	}
	return err
}
