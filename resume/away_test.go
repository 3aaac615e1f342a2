package resume_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// awayStore is a store that is away at times.
type awayStore struct {
	*resume.Memory
	away atomic.Bool
}

var errAway = errors.New("away")

func (s *awayStore) Claim(ctx context.Context, e resume.Entry, run resume.Run) (resume.Entry, resume.Writer, error) {
	if s.away.Load() {
		return resume.Entry{}, nil, errAway
	}
	return s.Memory.Claim(ctx, e, run)
}

func (s *awayStore) Find(ctx context.Context, id string) (resume.Entry, error) {
	if s.away.Load() {
		return resume.Entry{}, errAway
	}
	return s.Memory.Find(ctx, id)
}

// TestStoreThatIsAway lets what is new pass as it is. Who asks for a stream is told to
// come again: that there is none would have it ask upstream a second time.
func TestStoreThatIsAway(t *testing.T) {
	s := &awayStore{Memory: resume.NewMemory()}
	l := newLab(t, func(o *resume.Options) { o.Store = s }, streams(events(2), always()))
	first := l.send(post(key, "a"))
	id := first.id()
	whole := first.rest()

	s.away.Store(true)
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

	s.away.Store(false)
	if got := l.send(post(key, "a")).want(http.StatusOK).rest(); got != whole {
		t.Errorf("then it is %q", got)
	}
}
