package integration

import (
	"sync"
	"testing"
)

// Many streams at once do not get into each other's way.
func TestManyStreamsAtOnce(t *testing.T) {
	all := recordings(t, chats)
	base, _ := serve(t, newUpstream(t, library(all, byFrame).play), still.with(options{"zero_usage": "pass"}))
	c := newClient(t, base)
	want := map[string]string{}
	for _, r := range all {
		want[r.String()] = c.play(r.String()).all()
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := range 8 {
				name := all[(worker*7+i*31)%len(all)].String()
				r, err := c.try("/v1/chat/completions", "X-Play", name)
				if err != nil {
					t.Error(err)
					return
				}
				if got := r.all(); got != want[name] {
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
	plain := recorded(t, "g0-v0.8.0/one_tool")
	c := newClient(t, first(serve(t, newUpstream(t, router{
		"held": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "\n`💻 ls`\n"))
			if x.wait(rest) {
				x.frame(delta("content", "hi"))
				x.finish()
			}
		},
		"plain": replay(plain, byFrame),
	}.play), nil)))
	live := c.play("held")
	live.frame()
	live.frame()
	for range 20 {
		c.play("plain").answer().checkGood(t)
	}
	close(rest)
	if a := decode(t, live.all()); a.finish != "stop" || a.content != "hi" {
		t.Errorf("frames %v", a.names())
	}
}
