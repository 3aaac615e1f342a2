package proxy_test

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// deep is an inner writer that needs much stack for the header, as net/http does.
type deep struct{ *recorder }

func (w deep) FlushError() error {
	useStack(64)
	return w.recorder.FlushError()
}

// useStack uses as many KiB of stack, and a little more.
//
//go:noinline
func useStack(kib int) byte {
	var room [1 << 10]byte
	if kib > 0 {
		room[1] = useStack(kib - 1)
	}
	return room[kib%2]
}

// TestHeaderHasAStackOfItsOwn: the stack of a stream, which keeps what it once needed, need
// not be as large as writing the header needs it.
func TestHeaderHasAStackOfItsOwn(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would shrink the stack
	w := deep{&recorder{t: t, header: make(http.Header)}}
	moved := make(chan bool, 1)
	err := proxy.New(proxy.Options{}).Serve(w, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		useStack(16) // for all the rest
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		_, err := w.Write([]byte(role))
		moved <- uintptr(unsafe.Pointer(&here)) != before
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if <-moved {
		t.Error("the stack has grown")
	}
}

// slow is an inner writer whose client does not take the header before it may.
type slow struct {
	*recorder
	asked chan struct{}
	may   chan struct{}
}

func (w slow) FlushError() error {
	w.asked <- struct{}{}
	<-w.may
	return w.recorder.FlushError()
}

// TestSlowHeaderHoldsUpNoOther: a client that does not take its header keeps no other from
// getting one, and what sends them does not outlive the Proxy.
func TestSlowHeaderHoldsUpNoOther(t *testing.T) {
	before := runtime.NumGoroutine()
	serveSlowly(t, proxy.New(proxy.Options{}))
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines stay", runtime.NumGoroutine()-before)
		}
	}
}

// serveSlowly has one client take its header after three others have got theirs.
func serveSlowly(t *testing.T, p *proxy.Proxy) {
	serve := func(w http.ResponseWriter) error {
		return p.Serve(w, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := w.Write([]byte(role))
			return err
		})
	}
	w := slow{&recorder{t: t, header: make(http.Header)}, make(chan struct{}, 10), make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- serve(w) }()
	receive(t, w.asked)
	for range 3 {
		other := &recorder{t: t, header: make(http.Header)}
		if err := serve(other); err != nil || other.body.Len() == 0 {
			t.Errorf("another gets %q, %v", other.body.String(), err)
		}
	}
	close(w.may)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}
