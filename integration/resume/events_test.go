package resume

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// runOfHermes is a run whose events are recorded.
type runOfHermes struct {
	hermes.Recording
	events []string // with their blank lines
	ids    bool     // Hermes numbers them and keeps them, as 0.22; before, it gives them to one reader
	rest   chan struct{}
}

// runsOfHermes returns the runs that were recorded. Those of the newest version are once more there
// as 0.22 sends them: after a comment, and with numbers.
func runsOfHermes(t *testing.T) map[string]*runOfHermes {
	all := map[string]*runOfHermes{}
	add := func(name string, r *runOfHermes) {
		r.rest = make(chan struct{})
		all[strings.NewReplacer("/", "_", ".", "_").Replace(name)] = r
	}
	for _, r := range hermes.Recordings(t, func(r hermes.Recording) bool { return strings.HasPrefix(r.Scenario, "runs.") }) {
		old, numbered := &runOfHermes{Recording: r}, &runOfHermes{Recording: r, ids: true}
		for e := range bytes.SplitAfterSeq(r.Body, []byte("\n\n")) {
			if bytes.HasPrefix(e, []byte("id: ")) {
				old.ids = true // it is not old
				old.events = append(old.events, string(e))
			}
			if !bytes.HasPrefix(e, []byte("data: ")) {
				continue
			}
			numbered.events = append(numbered.events, fmt.Sprintf("id: %d\n%s, \"seq\": %[1]d}\n\n", len(old.events), bytes.TrimSuffix(e, []byte("}\n\n"))))
			old.events = append(old.events, string(e))
		}
		add(r.String(), old)
		if strings.HasPrefix(r.Generation, "g3") {
			add("new_"+r.Scenario, numbered)
		}
	}
	if len(all) < 14 {
		t.Fatalf("there are only %d", len(all))
	}
	return all
}

// play is the Hermes of the runs. Half of the events come when rest is closed, on a new connection if
// they have numbers.
func play(runs map[string]*runOfHermes) upstream.Script {
	var mu sync.Mutex
	asked := map[string]int{}
	return func(x *upstream.Exchange) {
		if x.Req.Method == http.MethodPost {
			upstream.AsJSON("202 Accepted", `{"run_id": "`+x.Req.Header.Get("X-Play")+`", "status": "started"}`)(x)
			return
		}
		path := strings.Split(x.Req.URL.Path, "/")
		name := path[len(path)-2]
		mu.Lock()
		asked[name]++
		r, again := runs[name], asked[name] > 1
		mu.Unlock()
		if r == nil || again && !r.ids {
			upstream.AsJSON("404 Not Found", `{"error": {"code": "run_not_found"}}`)(x)
			return
		}
		x.Raw(r.Header)
		if r.ids {
			x.Frame(": open")
		}
		from := 0
		if n, err := strconv.Atoi(x.Req.Header.Get(lastEvent)); err == nil {
			from = n + 1
		}
		for i, e := range r.events[from:] {
			if i+from == len(r.events)/2 && !again {
				if !x.Wait(r.rest) {
					return
				}
				if r.ids {
					x.Reset()
					return
				}
			}
			x.Chunk([]byte(e))
		}
		x.Frame(": stream closed")
		x.End()
	}
}

// TestEventsOfRuns has an EventSource that is cut at every event read a run, and two clients read
// it at the same time: each has all events with their numbers, also after the end, below a path, and
// with exclusive routes behind. Hermes is asked once, and once more when its connection breaks, and one
// stream counts for each time.
func TestEventsOfRuns(t *testing.T) {
	for place, s := range map[string]struct{ path, before, after string }{
		"":             {"", "", ""},
		"below a path": {"/agent", "handle_path /agent/* {\n\troute {\n\t", "}\n\t}"},
	} {
		t.Run(place, func(t *testing.T) {
			runs := runsOfHermes(t)
			up := upstream.New(t, play(runs))
			proxy := "reverse_proxy " + up.Addr
			if s.path != "" {
				proxy = "handle /v1/runs {\n\t" + proxy + "\n\t}\n\thandle {\n\t" + proxy + "\n\t}\n"
			}
			listen := harness.FreePort(t)
			side := sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin off",
				"metrics /metrics\n\tlog\n\t"+s.before+"hermes_resume\n\thermes\n\t"+proxy+"\n\t"+s.after))
			c := client.New(t, "http://"+listen)
			asked := 0
			for name, r := range runs {
				begun := c.Send(http.MethodPost, s.path+"/v1/runs", client.Body(`{"input": "hi"}`, false), "X-Play", name, "Authorization", "Bearer a", "Content-Type", "application/json")
				if body := begun.All(); begun.StatusCode != http.StatusAccepted || !strings.Contains(body, name) {
					t.Fatalf("%s: %s %s", name, begun.Status, body)
				}
				path := s.path + "/v1/runs/" + name + "/events"
				get := func(more ...string) *client.Reply {
					return c.Send(http.MethodGet, path, nil, append(more, "Authorization", "Bearer a", "Accept", "text/event-stream")...)
				}
				want := make([]string, len(r.events))
				for i, e := range r.events {
					if want[i] = e; !r.ids {
						want[i] = fmt.Sprintf("%sid: %d\n\n", strings.TrimSuffix(e, "\n"), i)
					}
				}
				together := []*client.Reply{get(), get()}
				for i := range want {
					if i == len(want)/2 {
						close(r.rest)
					}
					fields := []string{}
					if i > 0 {
						fields = []string{lastEvent, fmt.Sprint(i - 1)}
					}
					reply := get(fields...)
					if got := strings.ReplaceAll(frame(t, reply), ": open\n", ""); got != want[i] {
						t.Fatalf("%s: event %d is %q, want %q", name, i, got, want[i])
					}
					reply.Leave()
				}
				for _, reply := range append(together, get()) {
					var got string
					for e := frame(t, reply); e != ""; e = frame(t, reply) {
						if got += e; strings.Count(got, "\n\n") == len(want) {
							break
						}
					}
					if strings.ReplaceAll(got, ": open\n", "") != strings.Join(want, "") {
						t.Errorf("%s: a client got %q", name, got)
					}
					if rest := reply.All(); rest != ": stream closed\n" {
						t.Errorf("%s: and then %q", name, rest)
					}
				}
				if after := get(lastEvent, fmt.Sprint(len(want)-1)); after.StatusCode != http.StatusNoContent {
					t.Errorf("%s: after the end: %s", name, after.Status)
				}
				if asked += 2; r.ids {
					asked++
				}
				if len(up.Requests()) != asked {
					t.Fatalf("%s: upstream was asked %d times, want %d", name, len(up.Requests()), asked)
				}
			}
			f := metrics.Scrape(t, "http://"+listen+"/metrics")
			if n := f.Streams("ok") + f.Streams("agent_error"); n != float64(len(runs)) {
				t.Errorf("%v streams count, want %d", n, len(runs))
			}
			if n := strings.Count(side.Log.String(), `"status":202`); n != len(runs) {
				t.Errorf("the access log has %d runs, want %d", n, len(runs))
			}
		})
	}
}
