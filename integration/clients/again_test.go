package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// A loss is what became of a request that an agent has read and not answered.
type loss struct {
	outcome
	requests int // that the agent has got of it
}

// The ways to ask for an answer.
const (
	streamed    = "streamed"
	notStreamed = "not streamed"
)

// lose has a client ask an agent that reads its request and closes the connection,
// in a way, until it gives up.
func (l *lab) lose(t testing.TB, d *driver, way string) loss {
	nonce := fmt.Sprint(l.asked.Add(1))
	ask := d.ask
	if way == notStreamed {
		ask = d.askWhole
	}
	got := ask(l.bases[byDefault], playLost+" - "+nonce, refusedPatience)
	return loss{scenario{}.judge(got, expected{err: l.lost(t)}, playWhole), l.book.requests(nonce)}
}

// lost is the error in the JSON that comes with the 502 for it, and not the one for
// an agent that is not there.
func (l *lab) lost(t testing.TB) strict.APIError {
	body := fmt.Sprintf(`{"stream":true,"messages":[{"role":"user","content":%s}]}`, hermes.Quoted(playLost+" - 0"))
	res, err := http.Post(l.bases[byDefault]+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return strict.APIError{}
	}
	defer res.Body.Close()
	var e struct{ Error strict.APIError }
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil || !strings.Contains(e.Error.Message, "may be running") {
		t.Errorf("%s: %+v, %v", res.Status, e, err)
	}
	return e.Error
}

// lose lets a driver ask where the answer is lost, and does not wait either.
func (r *trial) lose(lab *lab) {
	if r.err != nil {
		return
	}
	for _, way := range r.ways() {
		done := make(chan loss, 1)
		r.losing[way] = done
		go func() { done <- lab.lose(r.d.t, r.d, way) }()
	}
}

// ways are those in which the client asks.
func (r *trial) ways() []string {
	if r.client.whole {
		return []string{streamed, notStreamed}
	}
	return []string{streamed}
}

// waitForLosses takes what has become of the requests whose answer was lost. The
// agent is asked once by all who heed X-Should-Retry.
func (r *trial) waitForLosses(t *testing.T) {
	for way, done := range r.losing {
		l := <-done
		r.losses[way] = l
		if !l.ok {
			t.Errorf("%s: %s; %s", way, l.cell, l.why)
		}
		if insists := l.requests != 1; insists != r.client.insists {
			t.Errorf("%s: the agent was asked %d times", way, l.requests)
		}
	}
}

// lossesSeen is how often the agent was asked.
func (r *trial) lossesSeen() string {
	var all []string
	for _, way := range r.ways() {
		all = append(all, fmt.Sprintf("%d %s", r.losses[way].requests, way))
	}
	return strings.Join(all, ", ")
}
