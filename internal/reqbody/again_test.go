package reqbody

import (
	"bytes"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

// TestAgain gives the same bytes, and nothing after Close.
func TestAgain(t *testing.T) {
	for _, text := range []string{"", "a", "the body"} {
		if err := iotest.TestReader(Again([]byte(text)), []byte(text)); err != nil {
			t.Error(err)
		}
	}
	b := Again([]byte("the body"))
	_ = b.Close()
	if got, err := io.ReadAll(b); len(got) > 0 || err != nil {
		t.Errorf("after Close: %q, %v", got, err)
	}
}

// TestAgainIsClosedWhileItIsRead, as the transport for HTTP/2 does: the race detector sees it.
func TestAgainIsClosedWhileItIsRead(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<16)
	for range 10 {
		b, began := Again(body), make(chan bool)
		go func() {
			close(began)
			_ = b.Close()
		}()
		<-began
		_, _ = io.Copy(io.Discard, iotest.OneByteReader(b))
	}
}

// TestAgainLetsGo of the bytes once they are read, or it is closed.
func TestAgainLetsGo(t *testing.T) {
	for _, use := range []func(io.ReadCloser){
		func(b io.ReadCloser) { _, _ = io.CopyN(io.Discard, b, 1<<20) },
		func(b io.ReadCloser) { _ = b.Close() },
	} {
		gone := make(chan bool)
		body := new([1 << 20]byte)
		runtime.AddCleanup(body, func(gone chan bool) { close(gone) }, gone)
		b := Again(body[:])
		use(b)
		for freed := false; !freed; {
			runtime.GC()
			select {
			case <-gone:
				freed = true
			default:
				runtime.Gosched()
			}
		}
		runtime.KeepAlive(b)
	}
}
