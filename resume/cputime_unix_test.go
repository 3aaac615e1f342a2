//go:build unix

package resume_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// cpuTime returns the CPU time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestSeekingCostsLittle: what is sought beyond the end of a long stream, or by a client that cancels
// it, costs no more than in a short one.
func TestSeekingCostsLittle(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const short, times, rounds = 500, 64, 20
	handlers := make(map[int]http.Handler)
	for _, n := range []int{short, short * times} {
		response, run := new(bytes.Buffer), new(bytes.Buffer)
		response.WriteString(responseFrame("created", responseObject("in_progress"), 0))
		for i := range n {
			response.WriteString(responseFrame("output_text.delta", `"delta": "`+strings.Repeat("x", 100)+`", `, i+1))
			_, _ = fmt.Fprintf(run, "id: %d\ndata: {\"event\": \"message.delta\", \"delta\": \"%s\"}\n\n", i+1, strings.Repeat("x", 100))
		}
		response.WriteString(responseFrame("completed", responseObject("completed"), n+1))
		_, _ = fmt.Fprintf(run, "id: %d\ndata: {\"event\": \"run.completed\"}\n\n", n+1)
		o := resume.DefaultOptions()
		over := make(chan struct{}, 10)
		o.Ended = func(*http.Request, resume.Ended) { over <- struct{}{} }
		h := resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			stream := response
			if strings.HasSuffix(r.URL.Path, "/events") {
				stream = run
			} else if r.Method != http.MethodPost {
				w.Header().Set("Content-Type", "application/json")
				return
			}
			_, _ = w.Write(stream.Bytes())
		}))
		for _, q := range []*http.Request{
			httptest.NewRequest(http.MethodPost, responsesPath, strings.NewReader(inBackground)),
			httptest.NewRequest(http.MethodGet, eventsPath, nil),
		} {
			q.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, q); w.Body.Len() < n*100 {
				t.Fatalf("%d bytes of %s", w.Body.Len(), q.URL)
			}
			<-over
		}
		handlers[n] = h
	}
	for _, ask := range []request{
		retrieve("1000000000"), retrieve(fmt.Sprint(math.MaxInt64)), cancelResponse(),
		{http.MethodGet, eventsPath, "", []string{resume.LastEventHeader, "1000000000"}}, {http.MethodGet, eventsPath + "?last_seq=1000000000", "", nil},
	} {
		took := func(n int) time.Duration {
			begun := cpuTime()
			for range rounds {
				q := httptest.NewRequest(ask.method, ask.path, nil)
				setFields(q, ask.header)
				w := httptest.NewRecorder()
				handlers[n].ServeHTTP(w, q)
				if b, _ := io.ReadAll(w.Body); w.Code >= 300 || len(b) > 0 && !strings.Contains(string(b), `"status": "completed"`) {
					t.Fatalf("%s %s: %d %.100q", ask.method, ask.path, w.Code, b)
				}
			}
			return cpuTime() - begun
		}
		least := max(min(took(short), took(short), took(short)), 5*time.Millisecond) // of less the clock tells too little
		most := took(short * times)
		for try := 0; most > 6*least && try < 20; try++ {
			most = min(most, took(short*times))
		}
		if most > 6*least {
			t.Errorf("%s %s %v: in a stream of %d times the length it costs %v instead of %v", ask.method, ask.path, ask.header, times, most/rounds, least/rounds)
		}
	}
}
