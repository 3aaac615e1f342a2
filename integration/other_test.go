package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// An otherStream is what Hermes sends on one of the other paths, cut before its
// last event.
type otherStream struct {
	recording
	frames []string // without their blank lines, and without the last event
	last   string   // the one that ends it
}

// otherStreams reads one recording of each kind.
func otherStreams(t testing.TB) map[string]otherStream {
	all := map[string]otherStream{}
	for kind, name := range map[string]string{"responses": "g3-v0.20.3/responses.one_tool", "runs": "g3-v0.20.3/runs.one_tool"} {
		o := otherStream{recording: recorded(t, name)}
		for f := range strings.SplitSeq(strings.TrimSuffix(string(o.body), "\n\n"), "\n\n") {
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

// begin sends the frames.
func (o otherStream) begin(x *exchange) {
	x.events()
	for _, f := range o.frames {
		x.frame(f)
	}
}

// checkFailed wants the frames and the failed event behind them, with a message
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
	scripts := router{}
	for kind, o := range streams {
		scripts[kind+" RST"] = func(x *exchange) { o.begin(x); x.pause(50 * time.Millisecond); x.reset() }
		scripts[kind+" FIN"] = func(x *exchange) { o.begin(x); x.torn([]byte(o.last[:30])) }
		scripts[kind+" clean"] = func(x *exchange) { o.begin(x); x.chunk([]byte(o.last[:30])); x.end() }
		scripts[kind+" close"] = func(x *exchange) {
			x.header("200 OK", "Content-Type: text/event-stream", "Connection: close")
			x.raw(strings.Join(o.frames, "\n\n") + "\n\n" + o.last[:30])
			x.fin()
		}
		scripts[kind+" ended"] = func(x *exchange) { o.begin(x); x.frame(o.last); x.torn(nil) }
	}
	dir, pool := certificate(t)
	listen := freePort(t)
	s := run(t, t.TempDir(), config{sites: []site{{listen: listen, upstream: newUpstream(t, scripts.play).addr, tls: dir}}})
	for protocol, transport := range protocols(t, pool) {
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				c := clientOver(t, transport, "https://"+listen)
				for how, words := range map[string]string{"RST": "connection to the agent was lost", "FIN": "connection to the agent was lost", "clean": "ended before", "close": "ended before"} {
					o.checkFailed(t, c.post(o.path(), "X-Play", kind+" "+how).all(), words)
				}
				if got, want := c.post(o.path(), "X-Play", kind+" ended").all(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
			})
		}
	}
	s.terminate() // what is logged of a stream is logged behind its end
	s.exit()
	told := map[any]int{}
	for _, e := range s.log.entries() {
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
	dir, pool := certificate(t)
	for protocol, transport := range protocols(t, pool) {
		if protocol == "HTTP/3.0" {
			continue // Caddy's closes its connections (see TestReloadInEveryProtocol)
		}
		for kind, o := range streams {
			t.Run(protocol+" "+kind, func(t *testing.T) {
				rest := make(chan struct{})
				up := newUpstream(t, router{
					"whole": func(x *exchange) {
						o.begin(x)
						if x.wait(rest) {
							x.frame(o.last)
							x.end()
						}
					},
					"held": func(x *exchange) { o.begin(x); x.silence() },
				}.play)
				conf := config{admin: freePort(t), grace: "1h", sites: []site{{listen: freePort(t), upstream: up.addr, tls: dir, options: options{"drain_timeout": "300ms"}}}}
				s := run(t, t.TempDir(), conf)
				c := clientOver(t, transport, "https://"+conf.sites[0].listen)
				live, held := c.post(o.path(), "X-Play", "whole"), c.post(o.path(), "X-Play", "held")
				start := make([]byte, len(o.frames[0]))
				if _, err := io.ReadFull(live.in, start); err != nil {
					t.Fatal(err)
				}
				next := conf
				next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, tls: dir, options: options{"drain_timeout": "300ms", "progress": "off"}}}
				s.load(next)
				close(rest)
				if got, want := string(start)+live.all(), strings.Join(o.frames, "\n\n")+"\n\n"+o.last+"\n\n"; got != want {
					t.Errorf("got %q", got)
				}
				s.terminate()
				o.checkFailed(t, held.all(), "shutting down")
				s.exit()
			})
		}
	}
}

// The client of one leaves, and takes upstream's request with it.
func TestClientOfAnotherStreamLeaves(t *testing.T) {
	for kind, o := range otherStreams(t) {
		t.Run(kind, func(t *testing.T) {
			gone := make(chan struct{})
			base, s := serve(t, newUpstream(t, func(x *exchange) { o.begin(x); x.silence(); close(gone) }), nil)
			r := newClient(t, base).post(o.path())
			if _, err := io.ReadFull(r.in, make([]byte, len(o.frames[0]))); err != nil {
				t.Fatal(err)
			}
			r.leave()
			select {
			case <-gone:
			case <-time.After(patience):
				t.Error("upstream was never left")
			}
			s.terminate()
			s.exit()
			for _, e := range s.log.entries() {
				if e["level"] == "warn" && strings.Contains(fmt.Sprint(e["msg"]), "stream ended") {
					t.Errorf("logged: %v", e)
				}
			}
		})
	}
}
