package proxy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// honest remembers who reports failures.
type honest struct{ told []string }

func (h *honest) of(upstream string) rewrite.UsageMemory {
	return honestOf{memoryOf{new(memory), upstream}, h}
}

type honestOf struct {
	memoryOf
	*honest
}

func (h honestOf) ReportsFailures(does bool) {
	if does {
		h.upstream += " does"
	}
	h.told = append(h.told, h.upstream)
}

// An upstream that says in its header whether its agent has ended well reports its
// failures, whatever its answer is. What the sidecar says of one does not count.
func TestUpstreamsThatSayWhetherTheyHaveCompleted(t *testing.T) {
	events, whole := "text/event-stream", "application/json"
	for name, c := range map[string]struct {
		path, media string
		status      int
		completed   []string // nil for no header
		want        []string
	}{
		"a stream":         {chatPath, events, 200, []string{"true"}, []string{"a does"}},
		"a failed one":     {chatPath, events, 200, []string{"false"}, []string{"a does"}},
		"an empty one":     {chatPath, events, 200, []string{""}, []string{"a does"}},
		"an answer":        {chatPath, whole, 200, []string{"true"}, []string{"a does"}},
		"an error":         {chatPath, whole, 502, []string{"false"}, []string{"a does"}},
		"an old stream":    {chatPath, events, 200, nil, nil},
		"an old answer":    {chatPath, whole, 200, nil, nil},
		"another path":     {otherPath, whole, 200, []string{"true"}, nil},
		"another's stream": {otherPath, events, 200, []string{"true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, store := range []*honest{{}, nil} {
				x := begin(t, path(c.path), option(func(o *proxy.Options) {
					o.Upstream = func(*http.Request) string { return "a" }
					if store != nil {
						o.Usage = store.of
					}
				}))
				x.do(func() {
					x.w.Header().Set("Content-Type", c.media)
					if c.completed != nil {
						x.w.Header()["X-Hermes-Completed"] = c.completed
					}
					x.w.WriteHeader(http.StatusContinue)
					x.w.WriteHeader(c.status)
				})
				x.abort()
				if store != nil && !slices.Equal(store.told, c.want) {
					t.Errorf("the store was told %q, want %q", store.told, c.want)
				}
			}
		})
	}

	// A legacy agent's failure, to which the sidecar gives the header.
	store := new(honest)
	x := begin(t, option(func(o *proxy.Options) { o.Usage = store.of }))
	body := completion("", zeroTokens)
	x.answerWhole(body)
	x.write(body)
	x.ret(nil).wantSwallowed(t)
	if x.rec.sent.Get("X-Hermes-Completed") != "false" || store.told != nil {
		t.Errorf("the answer is %v, the store was told %q", x.rec.sent, store.told)
	}
}
