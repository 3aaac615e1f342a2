package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	dto "github.com/prometheus/client_model/go"
)

const oneRun = "hermes_queue {\nruns 1\nwait 1h\n}\n"

// TestWaitsAreShown in the metrics, in the list of streams, in the access log, and by a placeholder for handlers that
// act after the answer.
func TestWaitsAreShown(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 10), site{before: "log_append waited {http.hermes.waited}\n\thermes_streams /streams", queue: []string{"runs 1"}})
	first := p.ask(chat, "key-1", "slow-1")
	p.Until(t, "slow-1")
	two := p.ask(whole, "key-2", "two")
	p.untilWaiting(1)
	gone := p.ask(whole, "key-3", "gone")
	p.untilWaiting(2)
	if n := p.metric("running"); n != 1 {
		t.Errorf("%v run", n)
	}
	var list struct {
		Waiting []struct {
			Path   string
			Since  time.Time
			Waited float64 `json:"waited_seconds"`
			Place  int
		}
	}
	_, text := p.get("/streams", "key-1").ends()
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Waiting) != 2 {
		t.Fatal(err, text)
	}
	for i, w := range list.Waiting {
		if w.Path != chat.path || w.Place != i+1 || w.Waited <= 0 || time.Since(w.Since) > harness.Patience {
			t.Errorf("waiting is %+v", w)
		}
	}
	p.leaves(gone)
	p.untilWaiting(1)
	p.End("slow-1")
	first.good(chat)
	two.good(whole)
	for what, n := range map[string]float64{"admitted": 2, "left": 1, "full": 0, "timeout": 0} {
		if got := p.metric("requests_total", "outcome", what); got != n {
			t.Errorf("%v requests %s, want %v", got, what, n)
		}
	}
	if waits, refused := p.metric("wait_seconds"), p.metric("refused_total"); waits != 2 || refused != 0 {
		t.Errorf("%v waits, %v refusals", waits, refused)
	}
	buckets := metrics.Scrape(t, "http://"+p.caddy.Admin+"/metrics")["caddy_hermes_queue_wait_seconds"].GetMetric()[0].GetHistogram().GetBucket()
	if !slices.ContainsFunc(buckets, func(b *dto.Bucket) bool { return b.GetUpperBound() == 300 && b.GetCumulativeCount() == 2 }) {
		t.Errorf("buckets %v", buckets)
	}
	var lines []string
	harness.Until(t, "three lines are in the access log", func() bool {
		lines = nil
		for line := range strings.Lines(p.caddy.Log.String()) {
			var l map[string]any
			if !strings.Contains(line, `"method":"POST"`) || json.Unmarshal([]byte(line), &l) != nil || l["msg"] != "handled request" {
				continue
			}
			seconds, has := l["hermes_waited"].(float64)
			lines = append(lines, fmt.Sprint(has, seconds > 0, !has || l["waited"] == seconds))
		}
		return len(lines) == 3
	})
	if slices.Sort(lines); !slices.Equal(lines, []string{"false false true", "true true true", "true true true"}) {
		t.Errorf("%q", lines)
	}
}

// TestNoHermes after the queue: nobody waits, and a warning says so until one is there.
func TestNoHermes(t *testing.T) {
	t.Parallel()
	const warning = "there is no hermes after hermes_queue, so no request waits; add one after it"
	warnings := func(p *place) (n int) {
		for _, l := range p.caddy.Log.Entries() {
			if l["msg"] == warning && l["level"] == "warn" {
				n++
			}
		}
		return n
	}
	p := newPlaceOf(t, hermes.New(t, 10), site{route: oneRun + "reverse_proxy AGENT"})
	all := []*pending{p.ask(chat, "key-1", "slow-1"), p.ask(chat, "key-2", "slow-2")}
	p.Until(t, "slow-1", "slow-2")
	p.Release()
	for _, q := range all {
		q.good(chat)
	}
	harness.Until(t, "the warning is there", func() bool { return warnings(p) == 1 })
	p.load(site{queue: []string{"runs 1"}})
	if n := warnings(p); n != 1 {
		t.Errorf("%d warnings", n)
	}
}
