// The driver of an old github.com/openai/openai-go, before v1.12, in the loop for
// chat completions that its documentation shows.
package main

import (
	"context"
	"errors"

	"github.com/hermes-sidecar/hermes-sidecar/integration/clients/go/driver"
	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

func main() { driver.Run("github.com/openai/openai-go", ask) }

func ask(c driver.Case, r *driver.Result) error {
	client := openai.NewClient(option.WithBaseURL(c.BaseURL), option.WithAPIKey("key"))
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model:    "hermes-agent",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Prompt)},
	})
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
	err := stream.Err()
	if apierr, ok := errors.AsType[*openai.Error](err); ok {
		return &driver.Error{Type: "*openai.Error", Message: apierr.Message, Code: apierr.Code}
	}
	return err
}
