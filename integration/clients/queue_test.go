package clients

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestWaitingClients has each client wait in line, while another chat has the only place of
// hermes_queue. It is told its place in the stream before the first chunk, and gets the answer then
// as if it had not waited, or an error if it has waited too long. A client that breaks on tool
// events breaks on that too, and needs the same option. Clients that are tried in brief are left out.
func TestWaitingClients(t *testing.T) {
	shop := newWorkshop(t)
	for _, c := range realClients {
		if c.brief {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			cmd, err := shop.command(t, c)
			if err != nil {
				harness.Missing(t, clientsVariable, err.Error())
			}
			d := startDriver(t, cmd)
			d.ready()
			desks := newDesks(t, c)
			cells := make([]outcome, len(desks))
			var all sync.WaitGroup
			for i, k := range desks {
				all.Go(func() { cells[i] = k.ask(t, d) })
			}
			all.Wait()
			for i, k := range desks {
				if want := c.bears(k.variant.name); cells[i].ok != want {
					t.Errorf("%s: %s (%s), want ok: %v", k.variant.name, cells[i].cell, cells[i].why, want)
				}
				t.Logf("%s: %s; %s", k.variant.name, cells[i].cell, cells[i].why)
			}
		})
	}
}

// waitingVariants are the options that decide what a client that waits is told.
var waitingVariants = []variant{
	{byDefault, nil},
	{"unnamed", sidecar.Options{"progress": "unnamed"}},
	{"comment", sidecar.Options{"progress": "comment"}},
	{"off", sidecar.Options{"progress": "off"}},
	{"no status line", sidecar.Options{"status_line": false}},
	{keepaliveChunk, quick.With(sidecar.Options{"progress": "off"})},
	{keepaliveComment, quick.With(sidecar.Options{"progress": "off", "keepalive_form": "comment"})},
}

// tooLong is the variant in which it waits in vain.
const tooLong = "too long"

// bears reports whether a client bears to wait, in a variant.
func (c realClient) bears(variant string) bool {
	switch variant {
	case byDefault, "no status line":
		return !c.strict || c.name == "go-openai" // which breaks on events of tools, not on one of a state
	case "comment", keepaliveComment:
		return !c.noComments
	}
	return true
}

// A desk is an agent whose only place is taken, and the line in front of it.
type desk struct {
	variant variant
	tap     *lineTap
	leave   func() // gives the place up, and returns when that is done
}

// occupies is the prompt of the chat that has the place.
const occupies = "occupies"

// newDesks starts a desk of each variant for a client.
func newDesks(t testing.TB, c realClient) (desks []*desk) {
	t.Helper()
	book := newPlaybook(t)
	vain := variant{name: tooLong}
	if c.strict {
		vain.options = sidecar.Options{"progress": "unnamed"}
	}
	var config sidecar.Config
	var began []<-chan struct{}
	for _, v := range append([]variant{vain}, waitingVariants...) {
		over, has := make(chan struct{}), make(chan struct{})
		up := upstream.New(t, func(x *upstream.Exchange) {
			if !bytes.Contains(x.Body, []byte(occupies)) {
				book.play(x)
				return
			}
			x.Begin("Busy.")
			close(has)
			x.Wait(over)
			x.Finish()
		})
		began = append(began, has)
		wait := "10m"
		if v.name == tooLong {
			wait = "2s"
		}
		s := sidecar.Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: v.options.With(sidecar.Options{}), Queue: sidecar.Options{"runs": 1, "wait": wait}}
		config.Sites = append(config.Sites, s)
		desks = append(desks, &desk{variant: v, tap: newLineTap(t, "http://"+s.Listen), leave: sync.OnceFunc(func() { close(over) })})
	}
	sidecar.Run(t, t.TempDir(), config)
	for i, k := range desks {
		go asks(&harness.Attempt{TB: t}, "http://"+config.Sites[i].Listen, occupies).All()
		<-began[i]
		t.Cleanup(k.leave)
	}
	return desks
}

// ask has the client ask, and wait until it has been told so.
func (k *desk) ask(t testing.TB, d *driver) outcome {
	got := make(chan seen, 1)
	go func() { got <- d.ask(k.tap.url, playWhole+" "+modern+"/plain of "+k.variant.name, harness.Patience) }()
	if k.variant.name == tooLong {
		want := expected{}
		want.err.Code, want.err.Message = "queue_timeout", "the agent was busy for as long as"
		o := judgeBad(<-got, want, false)
		o.why += fmt.Sprintf(", %d requests", k.tap.posts())
		return o
	}
	k.tap.told(t, k.variant)
	k.leave()
	o := judgeGood(<-got, expect(t, modern, "plain"))
	if n := k.tap.posts(); n != 1 {
		o.why += fmt.Sprintf(", %d requests", n)
	}
	return o
}

// A lineTap is a relay that knows what has gone through it.
type lineTap struct {
	url         string
	mu          sync.Mutex
	asked, said bytes.Buffer
}

func newLineTap(t testing.TB, base string) *lineTap {
	p := new(lineTap)
	keep := func(all *bytes.Buffer) func([]byte) {
		return func(b []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			all.Write(b)
		}
	}
	p.url = relay(t, base, func(down *net.TCPConn, dial func() (net.Conn, error)) {
		up, err := dial()
		if err != nil {
			return
		}
		defer up.Close()
		var both sync.WaitGroup
		both.Go(func() { pass(up, down, keep(&p.asked)) })
		both.Go(func() { pass(down, up, keep(&p.said)) })
		both.Wait()
	})
	return p
}

// posts returns how many requests have come.
func (p *lineTap) posts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.asked.Bytes(), []byte(post))
}

// told returns when the client has been told that it waits, as a variant does.
func (p *lineTap) told(t testing.TB, v variant) {
	t.Helper()
	want := "\r\n\r\n"
	switch {
	case v.options["progress"] != "off":
		want = "Waiting in line: you are next"
	case v.name == keepaliveChunk:
		want = "\ndata: {"
	case v.name == keepaliveComment:
		want = "\n: keepalive\n"
	}
	harness.Until(t, v.name+": the client is told that it waits", func() bool { return p.says(want) })
}

// says reports whether a stream has begun and has a text.
func (p *lineTap) says(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.HasPrefix(p.said.Bytes(), []byte("HTTP/1.1 200 ")) && bytes.Contains(p.said.Bytes(), []byte(text))
}
