package resume

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestEventsOfRuns has an EventSource that is cut at every event read a run, and another client read it
// at the same time: each has all events with their numbers, also after the end, below a path, and with
// exclusive routes behind. Hermes is asked once, and one stream counts.
func TestEventsOfRuns(t *testing.T) {
	agent, rest := hermes.New(t, 0), make(chan struct{})
	agent.On("go", hermes.Sends(`data: {"event": "message.delta", "run_id": "r", "delta": "a"}`), hermes.Waits(rest))
	listen := harness.FreePort(t)
	proxy := "reverse_proxy " + agent.Addr
	side := sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin off", "metrics /metrics\n\tlog\n\t"+
		"handle_path /agent/* {\n\troute {\n\thermes_resume\n\thermes\n\thandle /v1/runs {\n\t"+proxy+"\n\t}\n\thandle {\n\t"+proxy+"\n\t}\n\t}\n\t}"))
	c := client.New(t, "http://"+listen)
	const runs = "/agent/v1/runs"
	begun := c.Send(http.MethodPost, runs, strings.NewReader(`{"input": "go"}`), "Authorization", "Bearer a")
	var run struct {
		ID string `json:"run_id"`
	}
	if body := begun.All(); begun.StatusCode != http.StatusAccepted || json.Unmarshal([]byte(body), &run) != nil {
		t.Fatalf("%s %s", begun.Status, body)
	}
	get := func(more ...string) *client.Reply {
		return c.Send(http.MethodGet, runs+"/"+run.ID+"/events", nil, append(more, "Authorization", "Bearer a", "Accept", "text/event-stream")...)
	}
	const open, events = ": open\n", 3
	stays, cut := get(), ""
	for i := range events {
		var after []string
		if i > 0 {
			after = []string{lastEvent, fmt.Sprint(i - 1)}
		}
		if i == events-1 {
			close(rest)
		}
		reply := get(after...)
		e := strings.TrimPrefix(frame(t, reply), open)
		if reply.Leave(); !strings.HasPrefix(e, fmt.Sprintf("id: %d\ndata: ", i)) {
			t.Fatalf("event %d is %q", i, e)
		}
		cut += e
	}
	if !strings.Contains(cut, "run.completed") {
		t.Errorf("the client that is cut got %q", cut)
	}
	for _, reply := range []*client.Reply{stays, get()} {
		if got, want := reply.All(), open+cut+": stream closed\n"; got != want {
			t.Errorf("a client got %q, want %q", got, want)
		}
	}
	if after := get(lastEvent, fmt.Sprint(events-1)); after.StatusCode != http.StatusNoContent {
		t.Errorf("after the end: %s", after.Status)
	}
	if paths := agent.Paths(); !slices.Equal(paths, []string{"/v1/runs/" + run.ID + "/events"}) {
		t.Errorf("upstream was asked for %q", paths)
	}
	if n := metrics.Scrape(t, "http://"+listen+"/metrics").Streams("ok"); n != 1 {
		t.Errorf("%v streams count", n)
	}
	const accepted = `"status":202`
	if logged := side.Await(accepted); !logged || strings.Count(side.Log.String(), accepted) != 1 {
		t.Errorf("the access log has other runs than one:\n%s", side.Log)
	}
}
