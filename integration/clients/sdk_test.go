package clients

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// completion is an answer that is not streamed.
const completion = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"hermes-agent","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

// TestRepeatsOfRealClients cuts the first connection of clients that nobody changes, to a site with
// hermes_resume alone. What an SDK of OpenAI's repeats by itself joins: the agent is asked once,
// and the program sees the whole answer. LangChain.js repeats without the mark, in place of the SDK
// in it: the agent runs anew. A cut that a client does not repeat is an error that its program sees.
func TestRepeatsOfRealClients(t *testing.T) {
	const joins, runsAnew, fails = "the whole answer, asked 1", "the whole answer, asked 2", "an error, asked 1"
	cuts := []struct {
		cut
		name  string
		whole bool // the answer is not streamed
	}{
		{cut{}, "before the header of a stream", false},
		{cut{behind: regexp.MustCompile("\r\n\r\n")}, "after the header of a stream", false},
		{cut{behind: regexp.MustCompile(`"Hello"`)}, "in the text of a stream", false},
		{cut{}, "before the header", true},
		{cut{behind: regexp.MustCompile("\r\n\r\n")}, "after the header", true},
	}
	wants := map[string][]string{ // in the order of the cuts
		"openai-go":          {joins, fails, fails, joins, fails},
		"openai-node":        {joins, fails, fails, joins, fails},
		"openai-python":      {joins, fails, fails, joins, joins}, // it reads a whole answer before it decides
		"openai-python, old": {joins, fails, fails, joins, joins},
		"LangChain":          {joins, fails, fails, joins, joins},
		"LangChain.js":       {runsAnew, fails, fails},
	}
	shop := newWorkshop(t)
	for name, want := range wants {
		c := realClients[slices.IndexFunc(realClients, func(c realClient) bool { return c.name == name })]
		t.Run(name, func(t *testing.T) {
			cmd, err := shop.command(t, c)
			if err != nil {
				harness.Missing(t, clientsVariable, err.Error())
			}
			d := startDriver(t, cmd)
			d.ready()
			for i, want := range want {
				first, asked := cuts[i], make(chan struct{}, 10)
				up := upstream.New(t, func(x *upstream.Exchange) {
					asked <- struct{}{}
					if first.whole {
						upstream.AsJSON("200 OK", completion)(x)
						return
					}
					x.Begin("Hello", " world")
					x.Finish()
				})
				side, _ := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
				first.when = func() { await(t, asked) }
				ask := d.ask
				if first.whole {
					ask = d.askWhole
				}
				got := ask(newCutter(t, side, first.cut).url, first.name, harness.Patience)
				is := "an error"
				if got.Error == nil && got.Text == "Hello world" {
					is = "the whole answer"
				}
				if is = fmt.Sprintf("%s, asked %d", is, len(up.Requests())); is != want || got.hung {
					t.Errorf("cut %s: %s, want %s: %+v", first.name, is, want, got)
				}
			}
		})
	}
}
