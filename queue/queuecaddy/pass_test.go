package queuecaddy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// requestOf returns a request as Caddy hands it on, from an address; header are names and values.
func requestOf(address string, header ...string) *http.Request {
	r := caddytest.Request(http.MethodPost, "/v1/chat/completions", "", header...)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, address)
	return r
}

// TestClients: who has turns of its own. What credentials say is a test of package client.
func TestClients(t *testing.T) {
	user := QueueHandler{By: "{http.request.header.User}"}
	list, object := QueueHandler{By: "{http.vars.list}"}, QueueHandler{By: "{http.vars.object}"}
	none := requestOf("1")
	caddyhttp.SetVar(none.Context(), "list", []string{})
	caddyhttp.SetVar(none.Context(), "object", map[string]string{})
	for name, c := range map[string]struct {
		h    QueueHandler
		a, b *http.Request
		same bool
	}{
		"credentials, not the address": {a: requestOf("1", "Authorization", "x"), b: requestOf("2", "Authorization", "x"), same: true},
		"none, from one address":       {a: requestOf("1"), b: requestOf("1"), same: true},
		"none, from two addresses":     {a: requestOf("1"), b: requestOf("2")},
		"an address, and credentials":  {a: requestOf("1"), b: requestOf("1", "Authorization", "1")},
		"by":                           {user, requestOf("1", "User", "u", "Authorization", "x"), requestOf("2", "User", "u"), true},
		"by, others":                   {user, requestOf("1", "User", "u", "Authorization", "x"), requestOf("1", "User", "v", "Authorization", "x"), false},
		"by without a value":           {user, requestOf("1", "Authorization", "x"), requestOf("2", "User", " ", "Authorization", "x"), true},
		"by without a value, others":   {user, requestOf("1", "Authorization", "x"), requestOf("1", "Authorization", "y"), false},
		"by and credentials":           {user, requestOf("1", "User", "u"), requestOf("1", "Authorization", "u"), false},
		"by an empty list":             {list, none, requestOf("2"), false},
		"by an empty list, no more":    {list, none, requestOf("1"), true},
		"by an empty map":              {object, none, requestOf("2"), false},
		"by an empty map, no more":     {object, none, requestOf("1"), true},
	} {
		if got := c.h.clientOf(c.a) == c.h.clientOf(c.b); got != c.same {
			t.Errorf("%s: one client is %v", name, got)
		}
	}
}

// TestPassIsTakenOnce.
func TestPassIsTakenOnce(t *testing.T) {
	h := QueueHandler{lines: new(queue.Lines), backend: func() string { return t.Name() }, logger: zap.NewNop(), refused: new(bounded.Rate)}
	h.setDefaults()
	err := h.ServeHTTP(nil, requestOf("1"), caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		turn, err := Join(r)
		if err != nil || turn == nil {
			t.Fatal(turn, err)
		}
		defer turn.Done()
		again, err := Join(r.WithContext(context.WithoutCancel(r.Context())))
		if again != nil || err != nil {
			t.Error(again, err)
		}
		return nil
	}))
	get := requestOf("1")
	get.Method = http.MethodGet
	err = errors.Join(err, h.ServeHTTP(nil, get, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		if r.Context().Value(passKey{}) != nil {
			t.Error("a GET has a pass")
		}
		return nil
	})))
	if turn, none := Join(requestOf("1")); err != nil || turn != nil || none != nil {
		t.Error(err, turn, none)
	}
}

// TestRefusalsAreLogged once a second; more of them at the level debug.
func TestRefusalsAreLogged(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := QueueHandler{lines: new(queue.Lines), logger: zap.New(core), refused: new(bounded.Rate)}
	r := requestOf("1")
	h.logRefused(r, queue.ErrFull, 0)
	h.refused.Allow(time.Now().Add(time.Hour), 1) // no time passes
	h.logRefused(r, queue.ErrTimeout, time.Second)
	got := ""
	for _, l := range logs.All() {
		got += fmt.Sprintln(l.Level, l.Message, l.ContextMap())
	}
	if got != "info too many requests are waiting for the agent; rejected one map[path:/v1/chat/completions waited_seconds:0 waiting:0]\n"+
		"debug a request waited too long for the agent; rejected it map[path:/v1/chat/completions waited_seconds:1 waiting:0]\n" {
		t.Error(got)
	}
}

// BenchmarkPass is what a request costs more with hermes_queue, if there is a place for it: at most 5 µs.
func BenchmarkPass(b *testing.B) {
	h := QueueHandler{lines: new(queue.Lines), backend: func() string { return "127.0.0.1:8642" }, logger: zap.NewNop(), refused: new(bounded.Rate)}
	h.setDefaults()
	r := requestOf("1", "Authorization", "Bearer sk-0123456789abcdef0123456789abcdef0123456789abcdef")
	var turn *queue.Turn
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		var err error
		if turn, err = Join(r); err != nil {
			return err
		}
		defer turn.Done()
		if err := turn.Wait(r.Context(), nil); err != nil {
			return err
		}
		turn.Answered()
		return nil
	})
	b.ReportAllocs()
	for b.Loop() {
		if err := h.ServeHTTP(nil, r.WithContext(r.Context()), next); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNoPass is what a request costs without hermes_queue.
func BenchmarkNoPass(b *testing.B) {
	r := requestOf("1")
	b.ReportAllocs()
	for b.Loop() {
		if turn, err := Join(r); turn != nil || err != nil {
			b.Fatal(turn, err)
		}
	}
}

// TestNoQueueCostsNothing.
func TestNoQueueCostsNothing(t *testing.T) {
	r := requestOf("1")
	if n := testing.AllocsPerRun(100, func() { _, _ = Join(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
