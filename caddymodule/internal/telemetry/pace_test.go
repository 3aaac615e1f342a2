package telemetry

import (
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// TestTimesBetweenChunksAreObserved while streams are open; those that come in one read
// have none.
func TestTimesBetweenChunksAreObserved(t *testing.T) {
	h := newObserver()
	want := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "want", Buckets: genAIBuckets})
	at := time.Unix(1795164799, 0)
	var streams []*stream
	for range 3 {
		streams = append(streams, begun(h, "/v1/chat/completions", at))
	}
	for i, gap := range []time.Duration{5, 10, 11, 300, 7, 90_000, 40} {
		at = at.Add(gap * time.Millisecond)
		for k, s := range streams {
			s.Read(at, (i+1)*(k+1), sum{})
			if i > 0 {
				want.Observe((gap * time.Millisecond).Seconds())
			}
			for range k {
				want.Observe(0)
			}
		}
		compareHistograms(t, h.Process.metrics.outputChunk, want)
	}
	for _, s := range streams {
		s.End(httptest.NewRequest("POST", "/", nil), proxy.Result{})
	}
	compareHistograms(t, h.Process.metrics.outputChunk, want)
}

// compareHistograms wants both to say the same.
func compareHistograms(t *testing.T, got, want prometheus.Collector) {
	t.Helper()
	var said [2]string
	for i, c := range []prometheus.Collector{got, want} {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(c)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			m := f.GetMetric()[0].GetHistogram()
			m.CreatedTimestamp = nil
			*m.SampleSum = math.Round(*m.SampleSum*1e9) / 1e9 // floats do not add up
			said[i] = m.String()
		}
	}
	if said[0] != said[1] {
		t.Errorf("the histogram is\n%s\nwant\n%s", said[0], said[1])
	}
}
