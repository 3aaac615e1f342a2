package telemetry

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// paces are histograms of the times between chunks, one for each operation. They differ
// from those of the Prometheus client in that many equal times cost as much as one: a
// backend that is faster than its clients sends a hundred chunks in a read.
type paces struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	all  []*pace
}

func newPaces(name, help string) *paces {
	return &paces{desc: prometheus.NewDesc(
		prometheus.BuildFQName("gen_ai", "client_operation", name), help,
		[]string{operationLabel}, prometheus.Labels{providerLabel: provider},
	)}
}

// add returns a new histogram, of the operation.
func (p *paces) add(operation string) *pace {
	h := &pace{operation: operation, counts: make([]atomic.Uint64, len(genAIBuckets)+1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, h)
	return h
}

// Describe implements prometheus.Collector.
func (p *paces) Describe(descs chan<- *prometheus.Desc) { descs <- p.desc }

// Collect implements prometheus.Collector.
func (p *paces) Collect(metrics chan<- prometheus.Metric) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	p.mu.Unlock()
	for _, h := range all {
		count, buckets := uint64(0), make(map[float64]uint64, len(genAIBuckets))
		for i := range h.counts {
			count += h.counts[i].Load()
			if i < len(genAIBuckets) {
				buckets[genAIBuckets[i]] = count
			}
		}
		metrics <- prometheus.MustNewConstHistogram(p.desc, count, math.Float64frombits(h.sum.Load()), buckets, h.operation)
	}
}

// pace is a histogram of the times between the chunks of an operation.
type pace struct {
	operation string
	counts    []atomic.Uint64 // by the first of genAIBuckets that is no less than the time
	sum       atomic.Uint64   // the bits of a float64: seconds
}

// observe observes n times of so many seconds each.
func (h *pace) observe(seconds float64, n int) {
	i, _ := slices.BinarySearch(genAIBuckets, seconds)
	h.counts[i].Add(uint64(n))
	if seconds == 0 {
		return
	}
	for {
		sum := h.sum.Load()
		if h.sum.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+seconds*float64(n))) {
			return
		}
	}
}
