package proxy

import (
	"testing"
	"unsafe"
)

// Every open stream has one of each, and they are rounded up to what the allocator
// has.
func TestWhatAStreamTakes(t *testing.T) {
	for name, c := range map[string]struct{ size, most uintptr }{
		"responseWriter": {unsafe.Sizeof(responseWriter{}), 288},
		"stream":         {unsafe.Sizeof(stream{}), 48},
	} {
		if c.size > c.most {
			t.Errorf("a %s takes %d bytes, want at most %d", name, c.size, c.most)
		}
	}
}
