package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// run is a run of a test.
type run struct {
	readers   atomic.Int64
	cancelled chan log.Reason
}

func newRun() *run { return &run{cancelled: make(chan log.Reason, 100)} }

// callbacks returns what a store calls.
func (r *run) callbacks() log.Run {
	return log.Run{
		ReadersChanged: func(n int) { r.readers.Store(int64(n)) },
		Cancel:         func(why log.Reason) { r.cancelled <- why },
	}
}

// pair is a store as the replica that runs sees it, and as another does.
type pair struct{ here, there log.Store }

var ids atomic.Int64

// entry returns an entry with a key, "" for none. Those with the same key have the same place.
func entry(key string) log.Entry {
	id := ids.Add(1)
	of := log.Entry{Key: sha256.Sum256([]byte(cmp.Or(key, fmt.Sprint(id))))}
	e := log.Entry{
		ID: fmt.Sprintf("stream_%s%019d", of.KeyPlace(), id), About: []byte(`{"Path":"/v1/chat/completions","Progress":"1"}`),
		Keep: time.Hour, MaxStream: 1 << 20, MaxMemory: 64 << 20,
	}
	if key != "" {
		e.Key = sha256.Sum256([]byte(key))
	}
	return e
}

// claimed is a log with its writer.
type claimed struct {
	log.Entry
	log.Writer
}

// claim claims an entry, which must be the first.
func claim(t *testing.T, s log.Store, e log.Entry, r *run) claimed {
	t.Helper()
	e, w, err := s.Claim(context.Background(), e, r.callbacks())
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	return claimed{e, w}
}

// begun claims an entry, which must be the first, and begins its log.
func begun(t *testing.T, s log.Store, e log.Entry, r *run) claimed {
	t.Helper()
	l := claim(t, s, e, r)
	begin(t, l)
	return l
}

// wantKey checks that the key leads to the log with the entry.
func wantKey(t *testing.T, s log.Store, key string, want log.Entry) {
	t.Helper()
	have, w, err := s.Claim(context.Background(), entry(key), newRun().callbacks())
	have.Takes, want.Takes = false, false // that is about a claim
	if err != nil || w != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("the key has %v, %v, want %v", have, err, want)
	}
}

// isFree waits until a claim of the key is the first.
func isFree(t *testing.T, s log.Store, key string) {
	t.Helper()
	until(t, "the key is free", func() bool {
		_, w, err := s.Claim(context.Background(), entry(key), newRun().callbacks())
		return w != nil && err == nil
	})
}

// found reports whether there is a log with the id.
func found(t *testing.T, s log.Store, id string) bool {
	t.Helper()
	_, err := s.Find(context.Background(), id)
	if err != nil && !errors.Is(err, log.ErrDropped) {
		t.Fatal(err)
	}
	return err == nil
}

// remove deletes the log with the id.
func remove(t *testing.T, s log.Store, id string) {
	t.Helper()
	if err := s.Delete(context.Background(), id); err != nil {
		t.Fatal(err)
	}
}

// follow returns a reader of the log with the id, from its beginning on.
func follow(t *testing.T, s log.Store, id string) log.Reader {
	t.Helper()
	return followAfter(t, s, id, 0)
}

// followAfter returns a reader of the events after the number n.
func followAfter(t *testing.T, s log.Store, id string, n uint64) log.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r := s.Read(ctx, id, n)
	t.Cleanup(func() { cancel(); r.Close() })
	return r
}

// start waits for the first part, and reports whether the log is at its end.
func start(r log.Reader) (header http.Header, atEnd bool, err error) {
	p, err := r.Next()
	if atEnd = errors.Is(err, io.EOF); atEnd {
		err = nil
	}
	return p.Header, atEnd, err
}

// started returns a reader of the events after the number n that has started.
func started(t *testing.T, s log.Store, id string, n uint64) (r log.Reader, atEnd bool) {
	t.Helper()
	r = followAfter(t, s, id, n)
	_, atEnd, err := start(r)
	if err != nil {
		t.Fatalf("after %d: %v", n, err)
	}
	return r, atEnd
}

// refusal returns why there is no reader of the events after the number n.
func refusal(t *testing.T, s log.Store, id string, n uint64) error {
	t.Helper()
	_, _, err := start(followAfter(t, s, id, n))
	return err
}

// event returns the nth event.
func event(n int) string { return fmt.Sprintf("data: %d\n\n", n) }

// add appends whole events to a log. It waits for no readers.
func add(t *testing.T, l log.Writer, events ...string) {
	t.Helper()
	var p []byte
	var ends []int
	for _, e := range events {
		p = append(p, e...)
		ends = append(ends, len(p))
	}
	addPart(t, l, string(p), ends...)
}

// addPart appends a part of a log. It waits for no readers.
func addPart(t *testing.T, l log.Writer, data string, ends ...int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Append(ctx, log.Part{Data: []byte(data), Ends: ends}); err != nil {
		t.Fatal(err)
	}
}

// read reads so many bytes.
func read(t *testing.T, r log.Reader, n int) string {
	t.Helper()
	var b []byte
	for len(b) < n {
		p, err := r.Next()
		if err != nil {
			t.Fatalf("%v after %q", err, b)
		}
		b = append(b, p.Data...)
	}
	return string(b)
}

// all reads to the end.
func all(r log.Reader) (string, error) {
	var b []byte
	for {
		p, err := r.Next()
		if err != nil {
			return string(b), err
		}
		b = append(b, p.Data...)
	}
}

func begin(t *testing.T, l log.Writer) {
	t.Helper()
	header := http.Header{"Content-Type": {"text/event-stream"}, "Gone": nil}
	if err := l.Append(context.Background(), log.Part{Header: header}); err != nil {
		t.Fatal(err)
	}
}

// beginBody begins the log of an answer that is no event stream.
func beginBody(t *testing.T, l log.Writer) {
	t.Helper()
	part := log.Part{Header: http.Header{"Content-Type": {"application/json"}}, Status: http.StatusCreated}
	if err := l.Append(context.Background(), part); err != nil {
		t.Fatal(err)
	}
}

// wantRest reads to the end, which must be the error, and checks what was read.
func wantRest(t *testing.T, r log.Reader, want string, end error) {
	t.Helper()
	if got, err := all(r); got != want || !errors.Is(err, end) {
		t.Errorf("it is %.1000q, %v, want %.1000q", got, err, want)
	}
}

// inRedis waits until the state of the log there is as is says.
func inRedis(t *testing.T, s *Store, id string, is func(v *view) bool) {
	t.Helper()
	until(t, "it is so in Redis", func() bool {
		v, err := s.look(context.Background(), id, "")
		return err == nil && is(v)
	})
}
