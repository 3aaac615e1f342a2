package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxErrorBody is how many bytes of a refusal are read.
const maxErrorBody = 64 << 10

// client opens a connection for each stream and goes through no proxy.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// readStream asks the server at base, such as "http://127.0.0.1:8643", for a
// completion by model and hands each frame to each as it arrives. It returns
// nil after a clean end, what the server says if the answer is no stream, and the
// error of the connection if it broke.
func readStream(ctx context.Context, base, model string, each func(Frame)) error {
	body, err := json.Marshal(map[string]any{
		"model":    model,
		"stream":   true,
		"messages": []map[string]string{{"role": "user", "content": "hello"}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var answer struct{ Error StreamError }
		_ = json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&answer) // it may say nothing
		if answer.Error.Message == "" {
			return fmt.Errorf("http status %d", resp.StatusCode)
		}
		return fmt.Errorf("http status %d: %s", resp.StatusCode, answer.Error.Message)
	}
	return readFrames(resp.Body, each)
}
