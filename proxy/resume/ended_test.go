package resume_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// TestEndedStreamsTakeWhatIsCounted has clients send requests with large headers and
// bodies: of a stream that has ended, its log stays and nothing of its request.
func TestEndedStreamsTakeWhatIsCounted(t *testing.T) {
	l := newLab(t, nil, streams(events(3), always()))
	l.srv.Config.SetKeepAlivesEnabled(false)
	large := strings.Repeat("x", 250<<10)
	ask := func(n int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.srv.URL+otherPath+"?"+large, strings.NewReader(asking+large))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(key, fmt.Sprint(n))
		r.Header.Set("X-Large", large)
		r.Header.Set(proxy.ProgressHeader, large)
		res, err := l.srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err, string(b))
		}
		l.over()
	}
	ask(0)
	before := heap()
	const streams = 40
	for n := range streams {
		ask(n + 1)
	}
	if grown, used := heap()-before, used(l.store); grown > used+int64(len(large)*streams/4) {
		t.Errorf("the heap has grown by %d, counted are %d", grown, used)
	}
}

// used returns how many bytes the store counts.
func used(s *resume.Memory) int64 {
	bytes, _ := s.Used()
	return bytes
}
