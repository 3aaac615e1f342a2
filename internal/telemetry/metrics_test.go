package telemetry

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// newObserver returns an Observer with a Process of its own, which logs and emits
// nothing.
func newObserver() *Observer {
	return &Observer{Process: NewProcess(new(queue.Lines), desk.New()), Logger: zap.NewNop()}
}

// all returns what a registry gathers.
func all[F any](t *testing.T, gather func() ([]F, error)) []F {
	t.Helper()
	families, err := gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestLabelsAreBounded whatever upstream says, and every outcome is there from the beginning,
// so that the first is an increase.
func TestLabelsAreBounded(t *testing.T) {
	process := NewProcess(new(queue.Lines), desk.New())
	m := process.metrics
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(process.Metrics()...)
	for _, f := range all(t, registry.Gather) {
		if name := f.GetName(); name != "caddy_hermes_streams_total" && name != "caddy_hermes_answers_total" {
			continue
		}
		got := make(map[string]bool)
		for _, s := range f.GetMetric() {
			got[s.GetLabel()[0].GetValue()] = true
		}
		for _, o := range outcomes {
			if !got[o] {
				t.Errorf("%s: no counter for %s", f.GetName(), o)
			}
		}
	}
	for i := range 100 {
		odd := fmt.Sprint("odd", i)
		res := proxy.Result{Summary: rewrite.Summary{ID: odd, Model: odd, FinishReason: odd}, Outcome: odd, Upstream: odd}
		m.ended(&res)
		res.Whole = true
		m.ended(&res)
		m.took(operationChat, &res)
	}
	for _, f := range all(t, registry.Gather) {
		if n := len(f.GetMetric()); n > len(outcomes)+1 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		for _, s := range f.GetMetric() {
			if strings.Contains(s.String(), "odd") {
				t.Errorf("%s has what upstream said: %v", f.GetName(), s)
			}
		}
	}
}

// BenchmarkObservedChunk measures the observation of a chunk.
func BenchmarkObservedChunk(b *testing.B) {
	now, n := time.Unix(1795164799, 0), 0
	s := begun(newObserver(), "/v1/chat/completions", now)
	b.ReportAllocs()
	for b.Loop() {
		n++
		now = now.Add(20 * time.Millisecond)
		s.Read(now, n, sum{})
	}
}

// sum is a Summarizer of a stream with an id.
type sum struct{}

func (sum) Summary() rewrite.Summary { return rewrite.Summary{ID: "chatcmpl-1", Model: "hermes-agent"} }

// TestTimesBetweenChunksAreObserved while streams are open; those that come in one read
// have none.
func TestTimesBetweenChunksAreObserved(t *testing.T) {
	h := newObserver()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h.Process.metrics.outputChunk)
	at := time.Unix(1795164799, 0)
	var streams []*stream
	for range 3 {
		streams = append(streams, begun(h, "/v1/chat/completions", at))
	}
	var count uint64
	var total float64
	for i, gap := range []time.Duration{5, 10, 11, 300, 7, 90_000, 40} {
		at = at.Add(gap * time.Millisecond)
		for k, s := range streams {
			s.Read(at, (i+1)*(k+1), sum{})
			if count += uint64(k); i > 0 {
				count++
				total += (gap * time.Millisecond).Seconds()
			}
		}
		got := all(t, registry.Gather)[0].GetMetric()[0].GetHistogram()
		if got.GetSampleCount() != count || math.Abs(got.GetSampleSum()-total) > 1e-9 {
			t.Errorf("%d times of %v s together, want %d of %v", got.GetSampleCount(), got.GetSampleSum(), count, total)
		}
	}
}
