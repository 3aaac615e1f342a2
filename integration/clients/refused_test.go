package clients

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// refusals are the ways in which hermes_queue refuses the request of an SDK, and what that leads to.
var refusals = []struct {
	name   string
	queue  sidecar.Options
	whole  bool          // the answer is not streamed
	frees  bool          // the place comes free once the first request has been refused
	code   string        // in the error that the program gets, "" for the answer
	asked  int           // requests to the sidecar
	lasted time.Duration // at least: Retry-After is ten seconds
}{
	{"full", sidecar.Options{"waiting": 0}, false, false, "queue_full", 3, 20 * time.Second},
	{"full, not streamed", sidecar.Options{"waiting": 0}, true, false, "queue_full", 3, 20 * time.Second},
	{"full at first", sidecar.Options{"waiting": 0}, false, true, "", 2, 10 * time.Second},
	{"too long, not streamed", sidecar.Options{"wait": "100ms"}, true, false, "queue_timeout", 3, 20 * time.Second},
	{"too long, after the header", sidecar.Options{"wait": "1500ms"}, false, false, "queue_timeout", 1, 0},
}

// TestRefusedClients has SDKs of OpenAI's that nobody changes be refused in line. They stay away for
// Retry-After and ask again, twice, and then their program gets the error with the code. A stream
// whose header has left ends with the error, and is not asked for again. The agent hears of a request
// only when it has a place.
func TestRefusedClients(t *testing.T) {
	shop := newWorkshop(t)
	for _, name := range []string{"openai-go", "openai-node", "openai-python"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := shop.driver(t, t, name)
			var desks []*desk
			for _, r := range refusals {
				desks = append(desks, &desk{queue: r.queue})
			}
			startDesks(t, upstream.Chat(hermes.Says("Hello"), hermes.Says(" world")), desks)
			var all sync.WaitGroup
			for i, r := range refusals {
				k := desks[i]
				if r.frees {
					all.Go(func() {
						harness.Until(t, "the first request is refused", func() bool { return k.tap.says("429", "") })
						k.leave()
					})
				}
				all.Go(func() {
					ask, lasted := d.ask, harness.AtLeast(t, r.lasted)
					if r.whole {
						ask = d.askWhole
					}
					got := ask(k.tap.url, r.name, harness.Patience)
					lasted()
					heard := len(k.up.Requests()) - 1 // without that which occupies the place
					t.Logf("%s: %d requests, %d to the agent; %+v", r.name, k.tap.posts(), heard, got.Error)
					switch {
					case r.code == "" && (got.Error != nil || got.Text != "Hello world" || heard != 1):
						t.Errorf("%s: want the answer, and one request to the agent: %+v", r.name, got)
					case r.code != "" && (got.Error == nil || !strings.Contains(fmt.Sprint(*got.Error), r.code) || got.Text != "" || heard != 0):
						t.Errorf("%s: want an error with %s, and no request to the agent: %+v", r.name, r.code, got)
					}
					if n := k.tap.posts(); n != r.asked {
						t.Errorf("%s: %d requests, want %d", r.name, n, r.asked)
					}
				})
			}
			all.Wait()
		})
	}
}
