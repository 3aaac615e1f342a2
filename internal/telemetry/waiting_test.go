package telemetry

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// join has a request with the path join the line of the test, in which one request runs.
func join(t *testing.T, p *Process, path string) {
	t.Helper()
	o := queue.Options{Runs: 1, Wait: time.Hour, Waiting: 1 << 20, Label: path}
	turn, err := p.lines.Join(t.Name(), o, queue.Client{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(turn.Done)
}

// TestRequestsThatWaitAreListed in the order of their turns, in public without what may be an id.
func TestRequestsThatWaitAreListed(t *testing.T) {
	p := newObserver().Process
	join(t, p, "/runs")
	join(t, p, "/api/sessions/session-7f3a/chat/stream")
	join(t, p, "/v1/runs")
	now := time.Now().Add(time.Minute)
	list := p.Waiting(now)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	for i, path := range []string{"/api/sessions/session-7f3a/chat/stream", "/v1/runs"} {
		if w := list[i]; w.Path != path || w.Place != i+1 || w.Waited < 60 || math.Abs(w.Waited-now.Sub(w.Since).Seconds()) > 0.001 || w.Since.Location() != time.UTC {
			t.Errorf("%+v", w)
		}
	}
	b, err := p.PublicList(time.Now())
	if err != nil || strings.Contains(string(b), "7f3a") || !strings.Contains(string(b), `"waiting":[{"path":"/api/sessions/*/chat/stream","since":`) {
		t.Errorf("%v in %s", err, b)
	}
}

// TestPublicListOfThoseWhoWaitIsBounded to 1 MiB, the first ones in line; the number of the others is
// told.
func TestPublicListOfThoseWhoWaitIsBounded(t *testing.T) {
	const waiting = 5000
	p := newObserver().Process
	for range 1 + waiting {
		join(t, p, "/"+strings.Repeat("/", 255))
	}
	l, size := listPublic(t, p, time.Now())
	if n := len(l.Waiting); n == 0 || l.OmittedWaiting == 0 || n+l.OmittedWaiting != waiting {
		t.Errorf("%d are listed, %d omitted, of %d", n, l.OmittedWaiting, waiting)
	}
	for i, w := range l.Waiting {
		if w.Place != i+1 {
			t.Fatalf("number %d is %+v", i, w)
		}
	}
	if size < maxPublicList/2 || size > maxPublicList+64<<10 {
		t.Errorf("%d bytes", size)
	}
}
