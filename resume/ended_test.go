package resume_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
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

// TestBodyIsLetGo once next has read it, in whichever way, while the agent works.
func TestBodyIsLetGo(t *testing.T) {
	ways := map[string]func(r io.Reader){
		"Read": func(r io.Reader) { _, _ = io.ReadAll(r) },
		"Copy": func(r io.Reader) { _, _ = io.Copy(io.Discard, r) },
	}
	for name, read := range ways {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				read(r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
				<-hold
				return nil
			})
			const large, requests = 4 << 20, 5
			before := heap()
			var all []*reply
			for range requests {
				body, in := io.Pipe() // or the client has it too
				go func() {
					for range large / 1024 {
						_, _ = io.WriteString(in, strings.Repeat("x", 1024))
					}
					in.Close()
				}()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.srv.URL+otherPath, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set(resume.DetachHeader, "1m")
				res, err := l.srv.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &reply{Response: res, t: t, in: bufio.NewReader(res.Body)})
			}
			if grown := heap() - before; grown > requests*large/2 {
				t.Errorf("the heap has grown by %d", grown)
			}
			close(hold)
			for _, r := range all {
				r.rest()
				r.Body.Close()
			}
		})
	}
}
