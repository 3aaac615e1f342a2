package resume_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// problemOf checks that the answer is a problem with the status, and returns it.
func problemOf(t *testing.T, r *reply, status int) map[string]any {
	t.Helper()
	r.want(status)
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := r.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("X-Should-Retry %q", got)
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(r.rest()), &p); err != nil {
		t.Error(err)
	}
	if p["status"] != float64(status) || p["title"] == "" || p["detail"] == "" {
		t.Errorf("problem %v", p)
	}
	return p
}

// TestOthersGetNothing has somebody with other credentials, or at another path, ask for a
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
	// The key is everybody's own.
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
	other := post(key, "k")
	other.body = `{"stream":true,"messages":[1]}`
	detailOf(t, l.send(other), "another request body")
	same := post(key, "k") // to a reader of JSON, and not byte for byte
	same.body = `{"stream": true,"messages":[]}`
	detailOf(t, l.send(same), "another request body")
	other.header = append(other.header, "Last-Event-ID", id+"/1")
	detailOf(t, l.send(other), "another request body")
	detailOf(t, l.send(post(key, "another", "Last-Event-ID", id+"/1")), "Leave out the key")
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
	l.wantAsked(3)
}

// detailOf checks that the answer to a key says what is wrong with it.
func detailOf(t *testing.T, r *reply, says string) {
	t.Helper()
	if p := problemOf(t, r, http.StatusUnprocessableEntity); !strings.Contains(p["detail"].(string), says) {
		t.Errorf("problem %v", p)
	}
}

func TestKeyInAStreamOfNone(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	id := l.send(post(resume.DetachHeader, "1m")).id()
	detailOf(t, l.send(post(key, "k", "Last-Event-ID", id+"/1")), "Leave out the key")
	l.wantAsked(1)
}

// TestTwoKeys of one request have no agent run, again and again.
func TestTwoKeys(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	id := l.send(post(key, "k")).want(http.StatusOK).id()
	for _, q := range []request{post(key, "k", key, "l"), post(key, "k", key, "k"), post(key, "", key, "k"), post(key, "k", key, "l", "Last-Event-ID", id+"/1")} {
		problemOf(t, l.send(q), http.StatusBadRequest)
	}
	l.wantAsked(1)
}

// TestHead of a stream is answered as GET, without a body, and asks nobody.
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
		if st := l.runs.Stats(); st.TotalReplayed+st.TotalContinued != 0 {
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

func TestPositionInAnotherStream(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	a, b := l.send(post(key, "a")).id(), l.send(post(key, "b")).id()
	for _, at := range []string{"/0", "/1", ""} {
		problemOf(t, l.send(request{http.MethodGet, otherPath + "/" + b, "", []string{"Last-Event-ID", a + at}}), http.StatusBadRequest)
	}
	// One that is none of ours says nothing.
	if got := l.send(request{http.MethodGet, otherPath + "/" + b, "", []string{"Last-Event-ID", "7"}}).want(http.StatusOK).rest(); got != numbered(b, 1, events(2)...) {
		t.Errorf("GET gives %q", got)
	}
	l.wantAsked(2)
}

func TestPositionsThatAreNone(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	first := l.send(post(key, "k"))
	id := first.id()
	first.rest()
	problemOf(t, l.send(post("Last-Event-ID", id+"/3")), http.StatusBadRequest)
	if got := l.send(post("Last-Event-ID", id+"/2")).want(http.StatusOK).rest(); got != "" {
		t.Errorf("behind the end is %q", got)
	}
	// An EventSource takes every end for a failure, but 204.
	l.send(request{http.MethodGet, otherPath + "/" + id, "", []string{"Last-Event-ID", id + "/2"}}).want(http.StatusNoContent)
	if got := l.send(request{http.MethodGet, otherPath + "/" + id, "", nil}).want(http.StatusOK).rest(); got != numbered(id, 1, events(2)...) {
		t.Errorf("GET gives %q", got)
	}
	problemOf(t, l.send(post(key, "k2", "Last-Event-ID", "stream_"+strings.Repeat("A", 22)+"/1")), http.StatusNotFound)
	l.wantAsked(1)
	// One of ours that names no event does not have the agent run again.
	for _, at := range []string{id, id + "/", id + "/x", id + "/-1", id + "/+1", id + "/1/2", id + "/1,2", id + "/0x1", id + "/99999999999999999999", id + "/" + strings.Repeat("9", 1000)} {
		for _, q := range []request{post("Last-Event-ID", at), post(key, "k", "Last-Event-ID", at), post("Last-Event-ID", at, "Last-Event-ID", at), {http.MethodGet, otherPath + "/" + id, "", []string{"Last-Event-ID", at}}} {
			problemOf(t, l.send(q), http.StatusBadRequest)
		}
	}
	l.wantAsked(1)
	// Ids of others pass.
	for _, at := range []string{"7", "", "/", "x/1", "x" + id + "/1", id + "x/1", strings.ToUpper(id) + "/1", id[:28] + "!/1", "stream_7"} {
		l.send(post("Last-Event-ID", at)).want(http.StatusOK)
	}
	l.wantAsked(10)
	for _, path := range []string{"/" + id + "/", "/x" + id, "/a/" + id + "x", "/v1/responses/resp_0123456789abcdef0123456789abcdef", "/" + strings.Repeat("0", 32)} {
		l.send(request{http.MethodGet, path, "", nil}).want(http.StatusOK)
		l.send(request{http.MethodDelete, path, "", nil}).want(http.StatusOK)
	}
	l.wantAsked(20)
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
	if e := l.over(); e.Reason != resume.ReasonDeleted {
		t.Errorf("ended for %v", e.Reason)
	}
	first.broken() // it is no stream of Hermes', which would have an error finish
	problemOf(t, l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	problemOf(t, l.send(request{http.MethodGet, otherPath + "/" + id, "", nil}), http.StatusNotFound)
	l.wantAsked(1)
	go close(each)
	if again := l.send(post(key, "k")).want(http.StatusOK); again.id() == id || again.rest() != numbered(again.id(), 1, events(3)...) {
		t.Error("the key is not free")
	}
	l.wantAsked(2)
}

// TestDeleteOfAFinishedStream takes its log.
func TestDeleteOfAFinishedStream(t *testing.T) {
	l := newLab(t, nil, streams(events(3), always()))
	first := l.send(post(key, "k"))
	id := first.id()
	first.rest()
	l.send(request{http.MethodDelete, otherPath + "/" + id, "", nil}).want(http.StatusNoContent)
	if used, logs := l.store.Used(); used != 0 || logs != 0 {
		t.Errorf("%d bytes of %d logs are left", used, logs)
	}
}

func TestKeyOfAFailureIsFree(t *testing.T) {
	statuses := []int{http.StatusBadGateway, http.StatusBadRequest, http.StatusOK}
	calls := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		if calls++; statuses[calls-1] != http.StatusOK {
			http.Error(w, "no", statuses[calls-1])
			return nil
		}
		return streams(events(1), always())(w, r)
	})
	for _, status := range statuses {
		l.send(post(key, "k")).want(status)
	}
	if again := l.send(post(key, "k")).want(http.StatusOK); again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("header %v", again.Header)
	}
	l.wantAsked(3)
}

// TestEqualRequestsAtOnceAskOnce has many clients send the same before there is an
// answer.
func TestEqualRequestsAtOnceAskOnce(t *testing.T) {
	each := make(chan struct{})
	l := newLab(t, nil, streams(events(3), each))
	bodies, ids := make(chan string), make(chan string, 20)
	for range 20 {
		go func() {
			r, err := l.try(post(key, "k"))
			if err != nil {
				bodies <- err.Error()
				return
			}
			ids <- r.id()
			b, _ := io.ReadAll(r.in)
			bodies <- string(b)
		}()
	}
	until(t, "next is called", func() bool { return l.asked.Load() > 0 })
	close(each)
	id := <-ids
	for range 20 {
		if got, want := <-bodies, numbered(id, 1, events(3)...); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	l.wantAsked(1)
}

// TestTheNextOneRunsIfTheFirstFails lets a request that waits for the answer of an equal
// one run itself, when that is no stream.
func TestTheNextOneRunsIfTheFirstFails(t *testing.T) {
	begun, fail := make(chan struct{}), make(chan struct{})
	calls := 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		if calls++; calls == 1 {
			close(begun)
			<-fail
			http.Error(w, "no", http.StatusBadGateway)
			return nil
		}
		return streams(events(2), always())(w, r)
	})
	answers := make(chan *reply, 2)
	for range 2 {
		go func() {
			if r, err := l.try(post(key, "k")); err == nil {
				answers <- r
			}
		}()
		<-begun
	}
	close(fail)
	got := map[int]int{}
	for range 2 {
		got[(<-answers).StatusCode]++
	}
	if got[http.StatusBadGateway] != 1 || got[http.StatusOK] != 1 {
		t.Errorf("statuses %v", got)
	}
	l.wantAsked(2)
}
