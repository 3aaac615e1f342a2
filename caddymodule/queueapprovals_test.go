package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

// TestRepliesNeedNoPlace: the run that asks holds the only one until it has the reply, also if it has
// waited itself, with a client that was told so.
func TestRepliesNeedNoPlace(t *testing.T) {
	agent, upstream := newAsking022(t)
	site := runApprovals(t, upstream, strings.Replace(replied, "hermes {", "hermes_queue {\n\t\truns 1\n\t\twait 10m\n\t}\n\thermes {", 1))
	first := site.chat("danger")
	firstCode := first.until(codeIn)
	first.text()
	second := make(chan *answerOf)
	go func() { second <- site.chat("danger") }()
	site.inLine(1)
	a := <-second // its header leaves while it waits
	a.until("Waiting in line: you are next")
	if text := site.chat("approve " + firstCode).text(); text != "\n\nSo it is: once." {
		t.Errorf("the reply is answered by %q", text)
	}
	code := a.until(codeIn)
	a.text()
	third := make(chan *answerOf)
	go func() { third <- site.chat("hello") }()
	site.inLine(1)
	if text := site.chat("deny " + code).text(); !strings.Contains(text, "So it is: deny.") {
		t.Errorf("the reply is answered by %q", text)
	}
	if text := (<-third).text(); !strings.HasPrefix(text, "You said") || agent.commands() != 1 {
		t.Errorf("%q, and %d commands have run", text, agent.commands())
	}
	site.inLine(0)
}

// inLine waits until so many requests are in line.
func (s *approvalSite) inLine(n int) {
	s.t.Helper()
	for limit := time.Now().Add(caddytest.Patience); hermesapp.OfProcess().Lines.Stats().Waiting != n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("%d requests are in line, want %d", hermesapp.OfProcess().Lines.Stats().Waiting, n)
		}
	}
}
