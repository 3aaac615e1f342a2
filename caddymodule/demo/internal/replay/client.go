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

// A RefusedError is an answer that is no stream.
type RefusedError struct {
	// Status is the HTTP status.
	Status int
	// StreamError is what the body says.
	StreamError
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("http status %d", e.Status)
	}
	return fmt.Sprintf("http status %d: %s", e.Status, e.Message)
}

// client opens a connection for each stream and goes through no proxy.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// readStream asks the server at base, such as "http://127.0.0.1:8643", for a
// completion by model and hands each frame to each as it arrives. It returns
// nil after a clean end, a *RefusedError if the answer is no stream, and the error
// of the connection if it broke.
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
		return refused(resp)
	}
	return readFrames(resp.Body, each)
}

// refused reads the error in the body of an answer that is no stream.
func refused(resp *http.Response) error {
	e := &RefusedError{Status: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return e
	}
	var answer struct {
		Error StreamError `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil {
		e.StreamError = answer.Error
	}
	return e
}
