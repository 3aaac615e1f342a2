package proxy

import "testing"

func TestLargeBuffersAreNotKept(t *testing.T) {
	var p buffers
	b := p.get()
	p.put(b, make([]byte, 10, maxPooled+1))
	if got := p.get(); cap(got.b) > maxPooled {
		t.Errorf("a buffer of %d bytes is kept", cap(got.b))
	}
	b = p.get()
	p.put(b, make([]byte, 10, maxPooled))
	if len(b.b) != 0 || cap(b.b) != maxPooled {
		t.Errorf("a buffer that may be kept has length %d and room for %d", len(b.b), cap(b.b))
	}
}
