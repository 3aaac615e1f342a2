package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestHandlersHaveStack: the handlers behind this one find room on the stack, so that it
// is not copied again and again as they go deeper.
func TestHandlersHaveStack(t *testing.T) {
	h, cleanup := provision(t, "", t.TempDir())
	defer cleanup()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would shrink the stack
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	moved := make(chan bool)
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		useStack(12)
		moved <- uintptr(unsafe.Pointer(&here)) != before
		return nil
	})
	go func() { // on a stack that has not grown
		_ = h.ServeHTTP(w, r, next)
	}()
	if <-moved {
		t.Error("the stack has moved")
	}
}

// useStack uses as many KiB of stack, and a little more.
//
//go:noinline
func useStack(kib int) byte {
	var room [1 << 10]byte
	room[kib] = 1
	if kib == 0 {
		return room[kib]
	}
	return useStack(kib-1) + room[kib/2]
}
