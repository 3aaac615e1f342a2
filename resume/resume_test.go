package resume_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestOthersGetNothing has a client with other credentials, or at another path, ask for a
// stream: the answer is the one for a stream that never was, to the byte.
func TestOthersGetNothing(t *testing.T) {
	l := newLab(t, nil, streams(events(3), always()))
	mine := l.send(post(key, "k", "Authorization", "Bearer a", "Cookie", "s=1")).want(http.StatusOK)
	id := mine.id()
	whole := mine.rest()
	never := "stream_" + strings.Repeat("A", 22)
	ask := func(method, path, id string, header ...string) (int, string) {
		t.Helper()
		q := request{method, path, "", append(header, "Last-Event-ID", id+"/1")}
		if method != http.MethodPost {
			q.path += "/" + id
		}
		r := l.send(q)
		return r.StatusCode, r.rest()
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		for name, header := range map[string][]string{
			"no credentials":      nil,
			"another key":         {"Authorization", "Bearer b", "Cookie", "s=1"},
			"another cookie":      {"Authorization", "Bearer a", "Cookie", "s=2"},
			"no cookie":           {"Authorization", "Bearer a"},
			"a key of another":    {"Authorization", "Bearer a", "Cookie", "s=1", "X-Api-Key", "x"},
			"two keys":            {"Authorization", "Bearer a", "Authorization", "", "Cookie", "s=1"},
			"moved to the cookie": {"Authorization", "Bearer", "Cookie", "as=1"},
		} {
			status, body := ask(method, otherPath, id, header...)
			neverStatus, neverBody := ask(method, otherPath, never, header...)
			if status != http.StatusNotFound || status != neverStatus || body != neverBody {
				t.Errorf("%s, %s: %d %s, want %d %s", method, name, status, body, neverStatus, neverBody)
			}
		}
		if status, _ := ask(method, "/elsewhere", id, "Authorization", "Bearer a", "Cookie", "s=1"); status != http.StatusNotFound {
			t.Errorf("%s elsewhere: %d", method, status)
		}
	}
	// Each client has keys of its own.
	l.wantAsked(1)
	theirs := l.send(post(key, "k", "Authorization", "Bearer b")).want(http.StatusOK)
	if theirs.id() == id || theirs.Header.Get("Idempotency-Replayed") != "" {
		t.Error("another's key is known")
	}
	l.wantAsked(2)
	if again := l.send(post(key, "k", "Authorization", "Bearer a", "Cookie", "s=1")).want(http.StatusOK); again.rest() != whole {
		t.Error("it has changed")
	}
	l.wantAsked(2)
}

func TestSameKeyWithAnotherBody(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	first := l.send(post(key, "k"))
	id := first.id()
	first.rest()
	ofNoKey := l.send(post(resume.DetachHeader, "1m")).id()
	for _, c := range []struct {
		q          request
		body, says string
	}{
		{post(key, "k"), `{"stream":true,"messages":[1]}`, "another request body"},
		{post(key, "k"), `{"stream": true,"messages":[]}`, "another request body"}, // the same to a reader of JSON
		{post(key, "k", "Last-Event-ID", id+"/1"), `{"stream":true,"messages":[1]}`, "another request body"},
		{post(key, "another", "Last-Event-ID", id+"/1"), asking, "Leave out the key"},
		{post(key, "k", "Last-Event-ID", ofNoKey+"/1"), asking, "Leave out the key"},
	} {
		c.q.body = c.body
		if p := problemOf(t, l.send(c.q), http.StatusUnprocessableEntity); !strings.Contains(p["detail"].(string), c.says) {
			t.Errorf("problem %v", p)
		}
	}
	if got := l.send(post(key, "k", "Last-Event-ID", id+"/1")).want(http.StatusOK); got.rest() != numbered(id, 2, event(2)) || got.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("not continued")
	}
	elsewhere := post(key, "k")
	elsewhere.path = "/elsewhere"
	if got := l.send(elsewhere).want(http.StatusOK).id(); got == id {
		t.Error("another path has the same stream")
	}
	query := post(key, "k")
	query.path += "?a=1"
	if got := l.send(query).want(http.StatusOK).id(); got == id {
		t.Error("another query has the same stream")
	}
	l.wantAsked(4)
}

// TestHead of a stream is answered as GET, without a body, and does not ask upstream.
func TestHead(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(2), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k")).want(http.StatusOK)
	id := first.id()
	head := func(id string, header ...string) *reply {
		t.Helper()
		return l.send(request{http.MethodHead, otherPath + "/" + id, "", header})
	}
	for range 2 { // while it goes on, and after
		for _, header := range [][]string{nil, {"Last-Event-ID", id + "/1"}} {
			if r := head(id, header...).want(http.StatusOK); r.id() != id || r.Header.Get("Content-Type") != "text/event-stream" || r.rest() != "" {
				t.Errorf("header %v", r.Header)
			}
		}
		head(id, "Last-Event-ID", id+"/3").want(http.StatusBadRequest)
		head("stream_" + strings.Repeat("A", 22)).want(http.StatusNotFound)
		head(id, "Authorization", "Bearer b").want(http.StatusNotFound)
		if st := l.runs.Stats(); st.TotalAttached[resume.HowReplayed]+st.TotalAttached[resume.HowContinued] != 0 {
			t.Errorf("counted as a client: %+v", st)
		}
		if each != nil {
			close(each)
			first.rest()
			each = nil
		}
	}
	head(id, "Last-Event-ID", id+"/2").want(http.StatusNoContent)
	l.wantAsked(1)
}

func TestDeleteEndsAStream(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(3), each))
	go func() { each <- struct{}{} }()
	first := l.send(post(key, "k"))
	id := first.id()
	first.next()
	deleted := l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}).want(http.StatusNoContent)
	if deleted.rest() != "" {
		t.Error("204 with a body")
	}
	l.wantOver(log.ReasonDeleted)
	first.broken() // it is no stream of Hermes', which would have an error finish
	problemOf(t, l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	problemOf(t, l.send(request{http.MethodGet, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	l.wantAsked(1)
	go close(each)
	again := l.send(post(key, "k")).want(http.StatusOK)
	if again.id() == id || again.rest() != numbered(again.id(), 1, events(3)...) {
		t.Error("the key is not free")
	}
	if log.Place(again.id()) != log.Place(id) {
		t.Errorf("the logs of a key are at two places: %s and %s", id, again.id())
	}
	l.wantAsked(2)
	l.send(request{http.MethodDelete, otherPath + "/" + again.id(), "", nil}).want(http.StatusNoContent) // which has ended
	l.wantEmpty()
}

// TestStoreThatIsAway lets new requests pass as they are. A client that asks for a stream is told
// to come again: if it were told that there is none, it would ask upstream a second time.
func TestStoreThatIsAway(t *testing.T) {
	var away atomic.Bool
	l := newLab(t, func(o *resume.Options) {
		o.Store = &oddStore{
			Store: o.Store,
			claim: func(context.Context, log.Entry, int64) error { return awayIf(away.Load()) },
			find:  func(string) error { return awayIf(away.Load()) },
		}
	}, streams(events(2), always()))
	first := l.send(post(key, "a"))
	id := first.id()
	whole := first.rest()

	away.Store(true)
	if r := l.send(post(key, "b")).want(http.StatusOK); r.id() != "" || r.rest() != event(1)+event(2) {
		t.Error("it does not pass as it is")
	}
	for _, q := range []request{
		{http.MethodGet, otherPath + "/" + id, "", nil},
		{http.MethodHead, otherPath + "/" + id, "", nil},
		{http.MethodDelete, otherPath + "/" + id, "", nil},
		post("Last-Event-ID", id+"/1"),
	} {
		r := l.send(q).want(http.StatusServiceUnavailable)
		if r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") != "1" || r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: header %v", q.method, r.Header)
		}
	}
	l.wantAsked(2)

	away.Store(false)
	l.send(post(key, "a")).want(http.StatusOK).wantRest(whole)
}
