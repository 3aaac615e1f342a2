package resume_test

import (
	"net/http"
	"testing"
)

const key = "Idempotency-Key"

func TestAnswerIsContinuedBehindTheLastEvent(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(3), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k")).want(http.StatusOK)
	id := first.id()
	if got, want := first.next(), numbered(id, 1, event(1)); got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	first.leave()
	until(t, "nobody reads", func() bool { return l.runs.Stats().Detached == 1 })
	close(each)
	want := numbered(id, 2, event(2), event(3))
	if got := l.send(post("Last-Event-ID", id+"/1")).want(http.StatusOK).rest(); got != want {
		t.Errorf("continued with\n%q\nwant\n%q", got, want)
	}
	if got := l.send(request{http.MethodGet, otherPath + "/" + id, "", []string{"Last-Event-ID", id + "/1"}}).want(http.StatusOK).rest(); got != want {
		t.Errorf("continued by GET with\n%q\nwant\n%q", got, want)
	}
	again := l.send(post(key, "k")).want(http.StatusOK)
	if got, want := again.rest(), numbered(id, 1, events(3)...); got != want {
		t.Errorf("repeated with\n%q\nwant\n%q", got, want)
	}
	if again.Header.Get("Idempotency-Replayed") != "true" || again.id() != id {
		t.Errorf("header %v", again.Header)
	}
	l.wantAsked(1)
}
