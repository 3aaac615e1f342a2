package network

import (
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Many streams at once do not get into each other's way.
func TestManyStreamsAtOnce(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	base, _ := sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Still.With(sidecar.Options{"zero_usage": "pass"}))
	c := client.New(t, base)
	want := map[string]string{}
	for _, r := range all {
		want[r.String()] = c.Play(r.String()).All()
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := range 8 {
				name := all[(worker*7+i*31)%len(all)].String()
				r, err := c.Try("/v1/chat/completions", "X-Play", name)
				if err != nil {
					t.Error(err)
					return
				}
				if got := r.All(); got != want[name] {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want[name])
				}
			}
		})
	}
	wg.Wait()
}

// One stream's silence is nothing to the others.
func TestOneStreamDoesNotHoldAnother(t *testing.T) {
	rest := make(chan struct{})
	plain := hermes.Recorded(t, "g0-v0.8.0/one_tool")
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Router{
		"held": func(x *upstream.Exchange) {
			x.Begin("\n`💻 ls`\n")
			if x.Wait(rest) {
				x.Frame(hermes.Delta("content", "hi"))
				x.Finish()
			}
		},
		"plain": upstream.Replay(plain, upstream.ByFrame),
	}.Play), nil)))
	live := c.Play("held")
	live.Frame()
	live.Frame()
	for range 20 {
		c.Play("plain").Answer().CheckGood(t)
	}
	close(rest)
	if a := strict.Decode(t, live.All()); a.Finish != "stop" || a.Content != "hi" {
		t.Errorf("frames %v", a.Names())
	}
}
