package behalf

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestReportIsBounded: upstream may say as much as it likes.
func TestReportIsBounded(t *testing.T) {
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodPost, "/v1/runs", nil), caddy.NewReplacer(), httptest.NewRecorder(), nil)
	s := New(r, *r.URL, func(w http.ResponseWriter, _ *http.Request) error {
		for range 100 {
			if n, err := w.Write(make([]byte, 1000)); n != 1000 || err != nil {
				t.Error(n, err)
			}
		}
		return nil
	}, func(*http.Request) string { return "" })
	if said, err := s.Send(t.Context(), http.MethodGet, "/v1/runs/run_1", nil); said.Status != http.StatusOK || len(said.Body) != 16<<10 || err != nil {
		t.Errorf("%d, %d bytes, %v", said.Status, len(said.Body), err)
	}
}
