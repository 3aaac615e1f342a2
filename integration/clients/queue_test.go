package clients

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestWaitingClients has each client wait in line, while another chat has the only place of
// hermes_queue. It is told its place in the stream before the first chunk, and gets the answer then
// as if it had not waited, or an error if it has waited too long. A client that breaks on tool
// events also breaks on that, and needs the same option. Clients that are tried in brief are left out.
func TestWaitingClients(t *testing.T) {
	shop := newWorkshop(t)
	for _, c := range realClients {
		if c.brief {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := shop.driver(t, t, c.name)
			vain := &desk{variant: variant{name: tooLong}, queue: sidecar.Options{"wait": "2s"}}
			if c.strict {
				vain.options = sidecar.Options{"progress": "unnamed"}
			}
			desks := []*desk{vain}
			for _, v := range waitingVariants {
				desks = append(desks, &desk{variant: v, queue: sidecar.Options{"wait": "10m"}})
			}
			startDesks(t, newPlaybook(t).play, desks)
			var all sync.WaitGroup
			for _, k := range desks {
				all.Go(func() {
					o, want := k.ask(t, d), c.bears(k.name)
					if o.ok != want {
						t.Errorf("%s: %s (%s), want ok: %v", k.name, o.cell, o.why, want)
					}
					t.Logf("%s: %s; %s", k.name, o.cell, o.why)
				})
			}
			all.Wait()
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
	variant
	queue sidecar.Options
	up    *upstream.Server
	tap   *tap
	leave func() // gives the place up
}

// occupies is the prompt of the chat that has the place.
const occupies = "occupies"

// startDesks starts desks, whose agents play a script for all other chats.
func startDesks(t testing.TB, play upstream.Script, desks []*desk) {
	t.Helper()
	var config sidecar.Config
	began := make(chan struct{}, len(desks))
	for _, k := range desks {
		over := make(chan struct{})
		k.leave = sync.OnceFunc(func() { close(over) })
		k.up = upstream.New(t, func(x *upstream.Exchange) {
			if !bytes.Contains(x.Body, []byte(occupies)) {
				play(x)
				return
			}
			x.Begin("Busy.")
			began <- struct{}{}
			x.Wait(over)
			x.Finish()
		})
		s := sidecar.Site{Listen: harness.FreePort(t), Upstream: k.up.Addr, Options: k.options.With(nil), Queue: k.queue.With(sidecar.Options{"runs": 1})}
		config.Sites = append(config.Sites, s)
		k.tap = newTap(t, "http://"+s.Listen)
	}
	sidecar.Run(t, t.TempDir(), config)
	for i, k := range desks {
		go asks(&harness.Attempt{TB: t}, "http://"+config.Sites[i].Listen, occupies).All()
		t.Cleanup(k.leave)
	}
	for range desks {
		<-began
	}
}

// ask has the client ask, and wait until it has been told so.
func (k *desk) ask(t testing.TB, d *driver) outcome {
	got := make(chan seen, 1)
	go func() { got <- d.ask(k.tap.url, playWhole+" "+modern+"/plain of "+k.name, harness.Patience) }()
	if k.name == tooLong {
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

// told returns when the client has been told that it waits, as a variant does.
func (p *tap) told(t testing.TB, v variant) {
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
	harness.Until(t, v.name+": the client is told that it waits", func() bool { return p.says("200", want) })
}
