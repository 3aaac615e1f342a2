package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// An otherStream is what Hermes sends on one of the other paths, cut before its
// last event.
type otherStream struct {
	hermes.Recording
	frames []string // without their blank lines, and without the last event
	last   string   // the one that ends it
}

// otherStreams reads one recording of each kind.
func otherStreams(t testing.TB) map[string]otherStream {
	all := map[string]otherStream{}
	for kind, name := range map[string]string{"responses": "g3-v0.20.3/responses.one_tool", "runs": "g3-v0.20.3/runs.one_tool"} {
		o := otherStream{Recording: hermes.Recorded(t, name)}
		for f := range strings.SplitSeq(strings.TrimSuffix(string(o.Body), "\n\n"), "\n\n") {
			if strings.HasPrefix(f, ":") {
				continue
			}
			o.frames = append(o.frames, f)
		}
		n := len(o.frames) - 1
		o.frames, o.last = o.frames[:n], o.frames[n]
		all[kind] = o
	}
	return all
}

// inTool returns the stream up to the frame that has start, with which a tool starts.
func (o otherStream) inTool(start string) otherStream {
	n := slices.IndexFunc(o.frames, func(frame string) bool { return strings.Contains(frame, start) })
	o.frames = o.frames[:n+1]
	return o
}

// begin sends the frames.
func (o otherStream) begin(x *upstream.Exchange) {
	x.Events()
	for _, f := range o.frames {
		x.Frame(f)
	}
}

// checkFailed wants the frames and the failed event after them, with a message
// that has the words.
func (o otherStream) checkFailed(t testing.TB, body, words string) {
	t.Helper()
	sent := strings.Join(o.frames, "\n\n") + "\n\n"
	rest, ok := strings.CutPrefix(body, sent)
	if !ok {
		t.Errorf("got %q", body)
		return
	}
	name, data, named := strings.Cut(rest, "\ndata: ")
	if !named {
		data = strings.TrimPrefix(name, "data: ")
	}
	var e struct {
		Type     string
		Number   int `json:"sequence_number"`
		Response struct {
			ID, Object, Status, Model string
			Error                     struct{ Code, Message string }
			Output                    []any
		}
		Event     string
		RunID     string `json:"run_id"`
		Timestamp float64
		Error     string
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil || !strings.HasSuffix(rest, "}\n\n") || strings.Count(rest, "\n\n") != 1 {
		t.Errorf("%v in %q", err, rest)
		return
	}
	first := o.frames[0]
	if strings.HasPrefix(first, "event:") {
		r := e.Response
		if name != "event: response.failed" || e.Type != "response.failed" || e.Number != len(o.frames) || !strings.Contains(first, `"`+r.ID+`"`) || r.ID == "" ||
			r.Object != "response" || r.Status != "failed" || r.Model != "hermes-agent" || r.Output == nil || r.Error.Code != "server_error" || !strings.Contains(r.Error.Message, words) {
			t.Errorf("failed event %q", rest)
		}
		return
	}
	if named || e.Event != "run.failed" || !strings.Contains(first, `"`+e.RunID+`"`) || e.RunID == "" || e.Timestamp == 0 || !strings.Contains(e.Error, words) {
		t.Errorf("failed event %q", rest)
	}
}

// A killed backend is told of in the stream's own form, whatever the client
// speaks, and the client's connection ends well.
func TestOtherStreamsThatAreCut(t *testing.T) {
	streams := otherStreams(t)
	scripts := upstream.Router{}
	for kind, o := range streams {
		scripts[kind+" RST"] = func(x *upstream.Exchange) { o.begin(x); x.Pause(50 * time.Millisecond); x.Reset() }
		scripts[kind+" FIN"] = func(x *upstream.Exchange) { o.begin(x); x.Torn([]byte(o.last[:30])) }
		scripts[kind+" clean"] = func(x *upstream.Exchange) { o.begin(x); x.Chunk([]byte(o.last[:30])); x.End() }
		scripts[kind+" close"] = func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.Raw(strings.Join(o.frames, "\n\n") + "\n\n" + o.last[:30])
			x.Fin()
		}
		scripts[kind+" ended"] = func(x *upstream.Exchange) { o.begin(x); x.Frame(o.last); x.Torn(nil) }
	}
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	s := sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{{Listen: listen, Upstream: upstream.New(t, scripts.Play).Addr, TLS: dir}}})
	for protocol, transport := range client.Protocols(t, pool) {
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				c := client.Over(t, transport, "https://"+listen)
				for how, words := range map[string]string{"RST": "connection to the agent was lost", "FIN": "connection to the agent was lost", "clean": "ended before", "close": "ended before"} {
					o.checkFailed(t, c.Post(o.Path(), "X-Play", kind+" "+how).All(), words)
				}
				if got, want := c.Post(o.Path(), "X-Play", kind+" ended").All(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
			})
		}
	}
	s.Terminate() // a stream is logged after its end
	s.Exit()
	told := map[any]int{}
	for _, e := range s.Log.Entries() {
		if o, ok := e["outcome"]; ok && e["completion_id"] != "" {
			told[o]++
		}
	}
	if told["upstream_aborted"] != 12 || told["upstream_incomplete"] != 12 {
		t.Errorf("outcomes in the log: %v", told)
	}
}

// A reload in the middle of them is not noticed; at the end of the process they
// fail before the grace period ends.
func TestOtherStreamsAcrossAReloadAndTheEnd(t *testing.T) {
	streams := otherStreams(t)
	dir, pool := client.Certificate(t)
	for protocol, transport := range client.Protocols(t, pool) {
		if protocol == "HTTP/3.0" {
			continue // Caddy's closes its connections (see TestReloadInEveryProtocol)
		}
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				rest := make(chan struct{})
				up := upstream.New(t, upstream.Router{
					"whole": func(x *upstream.Exchange) {
						o.begin(x)
						if x.Wait(rest) {
							x.Frame(o.last)
							x.End()
						}
					},
					"held": func(x *upstream.Exchange) { o.begin(x); x.Silence() },
				}.Play)
				conf := sidecar.Config{Admin: harness.FreePort(t), Grace: "1h", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"drain_timeout": "300ms"}}}}
				s := sidecar.Run(t, t.TempDir(), conf)
				c := client.Over(t, transport, "https://"+conf.Sites[0].Listen)
				live, held := c.Post(o.Path(), "X-Play", "whole"), c.Post(o.Path(), "X-Play", "held")
				start := make([]byte, len(o.frames[0]))
				if _, err := io.ReadFull(live.In, start); err != nil {
					t.Fatal(err)
				}
				next := conf
				next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"drain_timeout": "300ms", "progress": "off"}}}
				s.Load(next)
				close(rest)
				if got, want := string(start)+live.All(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
				s.Terminate()
				o.checkFailed(t, held.All(), "shutting down")
				s.Exit()
			})
		}
	}
}

// The client of one leaves, and takes upstream's request with it.
func TestClientOfAnotherStreamLeaves(t *testing.T) {
	for kind, o := range otherStreams(t) {
		t.Run(kind, func(t *testing.T) {
			gone := make(chan struct{})
			base, s := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) { o.begin(x); x.Silence(); close(gone) }), nil)
			r := client.New(t, base).Post(o.Path())
			if _, err := io.ReadFull(r.In, make([]byte, len(o.frames[0]))); err != nil {
				t.Fatal(err)
			}
			r.Leave()
			select {
			case <-gone:
			case <-time.After(harness.Patience):
				t.Error("upstream was never left")
			}
			s.Terminate()
			s.Exit()
			for _, e := range s.Log.Entries() {
				if e["level"] == "warn" && strings.Contains(fmt.Sprint(e["msg"]), "stream ended") {
					t.Errorf("logged: %v", e)
				}
			}
		})
	}
}
