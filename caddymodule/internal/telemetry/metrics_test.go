package telemetry

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// newObserver returns an Observer with a Process of its own, which logs and emits
// nothing.
func newObserver() *Observer { return &Observer{Process: NewProcess(), Logger: zap.NewNop()} }

// textFrame is a chunk with text.
const textFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n"

// TestForeignMetricsOfTheSameNameAreNoError of the configuration.
func TestForeignMetricsOfTheSameNameAreNoError(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gen_ai_client_operation_duration_seconds", Help: "Of another module."}, []string{"model"}))
	if err := NewProcess().Register(registry); err == nil {
		t.Error("nobody is told")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range families {
		found = found || f.GetName() == "caddy_hermes_tool_duration_seconds"
	}
	if !found {
		t.Error("the other metrics are missing")
	}
}

// TestLabelsAreBounded whatever upstream says.
func TestLabelsAreBounded(t *testing.T) {
	process := NewProcess()
	m := process.metrics
	registry := prometheus.NewPedanticRegistry()
	if err := process.Register(registry); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		odd := fmt.Sprint("odd", i)
		res := proxy.Result{Summary: rewrite.Summary{ID: odd, Model: odd, FinishReason: odd}, Outcome: odd, Upstream: odd}
		m.ended(&res)
		res.Whole = true
		m.ended(&res)
		m.took(operationChat, &res)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
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

// TestEveryOutcomeIsThereFromTheBeginning, so that the first is an increase.
func TestEveryOutcomeIsThereFromTheBeginning(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if err := NewProcess().Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				got[fmt.Sprintf("%s{%s=%q}", f.GetName(), l.GetName(), l.GetValue())] = true
			}
		}
	}
	for _, o := range outcomes {
		for _, name := range []string{"streams", "answers"} {
			if !got[fmt.Sprintf("caddy_hermes_%s_total{outcome=%q}", name, o)] {
				t.Errorf("%s: no counter for %s", name, o)
			}
		}
	}
}

// observedChunks returns what observes a chunk of a stream that has begun.
func observedChunks() (chunk func()) {
	h := newObserver()
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	now, n := time.Unix(1795164799, 0), 0
	s := h.Begin(r, proxy.Begun{Since: now, Kind: proxy.KindChat})
	return func() {
		n++
		now = now.Add(20 * time.Millisecond)
		s.Read(now, n, sum{})
	}
}

func TestObservingAChunkAllocatesNothing(t *testing.T) {
	chunk := observedChunks()
	chunk()
	if n := testing.AllocsPerRun(1000, chunk); n != 0 {
		t.Errorf("%v allocations for each chunk", n)
	}
}

// BenchmarkObservedChunk is what observation costs for each chunk.
func BenchmarkObservedChunk(b *testing.B) {
	chunk := observedChunks()
	chunk()
	b.ReportAllocs()
	for b.Loop() {
		chunk()
	}
}

// BenchmarkServedChunk is a chunk on its whole way, with an observer and without.
func BenchmarkServedChunk(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("observed=%t", observed), func(b *testing.B) {
			o := proxy.DefaultOptions()
			if observed {
				o.Observer = newObserver()
			}
			r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
			frame := bytes.Clone([]byte(textFrame))
			b.ReportAllocs()
			_ = proxy.New(o).Serve(sink{http.Header{}}, r, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write(frame)
				b.ResetTimer()
				flush := http.NewResponseController(w).Flush
				for b.Loop() { // as a proxy does
					_, _ = w.Write(frame)
					_ = flush()
				}
				return nil
			})
		})
	}
}

// sum is a Summarizer of a stream with an id.
type sum struct{}

func (sum) Summary() rewrite.Summary { return rewrite.Summary{ID: "chatcmpl-1", Model: "hermes-agent"} }

// sink is a client that takes everything.
type sink struct{ header http.Header }

func (s sink) Header() http.Header       { return s.header }
func (sink) WriteHeader(int)             {}
func (sink) Write(b []byte) (int, error) { return len(b), nil }
func (sink) FlushError() error           { return nil }
