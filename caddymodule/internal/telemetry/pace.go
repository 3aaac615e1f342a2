package telemetry

import (
	"math/bits"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// paceBuckets is how many buckets the times between chunks fall into: one for each
// bound of genAIBuckets, and one for what is longer.
const paceBuckets = 14 + 1

// pace counts the times between the chunks of one stream, until they are added to the
// histogram of all. So a chunk costs an addition, about 1 ns; Observe of a histogram
// that all streams share takes 30, and 50 where two of them do so at once.
type pace struct {
	sum     time.Duration
	buckets [paceBuckets]uint32
}

// chunks counts n chunks that have come at once, d after the chunk before.
func (p *pace) chunks(n int, d time.Duration) {
	p.buckets[paceBucket(d)]++
	p.buckets[0] += uint32(n - 1)
	p.sum += d
}

// paceBucket returns the bucket of a time: the bounds are 10 ms, 20 ms, 40 ms and
// so on (TestPaceBucketsAreTheConventions).
func paceBucket(d time.Duration) int {
	doubled := bits.Len64(uint64(max(d-1, 0) / (10 * time.Millisecond)))
	return min(doubled, paceBuckets-1)
}

// paceHistogram is the histogram of the times between the chunks of all streams, by
// operation. It asks the open streams when it is asked.
type paceHistogram struct {
	desc *prometheus.Desc
	live *liveStreams

	mu    sync.Mutex
	total map[operation]*paceTotal
}

type paceTotal struct {
	buckets [paceBuckets]uint64
	sum     time.Duration
}

func newPaceHistogram(live *liveStreams) *paceHistogram {
	return &paceHistogram{
		desc: prometheus.NewDesc("gen_ai_client_operation_time_per_output_chunk_seconds", "Time between the chunks of a stream.",
			[]string{"gen_ai_operation_name"}, prometheus.Labels{"gen_ai_provider_name": provider}),
		live: live, total: make(map[operation]*paceTotal),
	}
}

// add takes what has been counted of a stream, which begins anew.
func (h *paceHistogram) add(o operation, p *pace) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.total[o]
	if t == nil {
		t = new(paceTotal)
		h.total[o] = t
	}
	for i, n := range p.buckets {
		t.buckets[i] += uint64(n)
	}
	t.sum += p.sum
	*p = pace{}
}

// Describe implements prometheus.Collector.
func (h *paceHistogram) Describe(descs chan<- *prometheus.Desc) { descs <- h.desc }

// Collect implements prometheus.Collector.
func (h *paceHistogram) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range h.live.streams() {
		s.addPace()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for o, t := range h.total {
		var count uint64
		buckets := make(map[float64]uint64, len(genAIBuckets))
		for i, bound := range genAIBuckets {
			count += t.buckets[i]
			buckets[bound] = count
		}
		count += t.buckets[paceBuckets-1]
		metrics <- prometheus.MustNewConstHistogram(h.desc, count, t.sum.Seconds(), buckets, string(o))
	}
}

// Interface guard
var _ prometheus.Collector = (*paceHistogram)(nil)
