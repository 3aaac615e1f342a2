package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
)

const (
	markerFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"\n` +
		"`💻 ls`" + `\n"},"finish_reason":null}]}` + "\n\n"
)

// listed asks the admin API for the streams.
func listed(t *testing.T) (list struct {
	Open  []telemetry.OpenStream
	Ended []telemetry.EndedStream
}) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := listStreams(w, httptest.NewRequest(http.MethodGet, "/hermes/streams", nil)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return list
}
