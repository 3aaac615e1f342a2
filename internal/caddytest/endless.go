package caddytest

import (
	"io"
	"runtime"
	"strings"
)

// Endless is a reader of a text that repeats, until Size bytes have come if that is above
// 0. Peak is the most memory in bytes that has been in use while it was read, beyond what
// was in use at its first byte.
type Endless struct {
	Text string
	Size int
	Peak uint64

	read, next int
	before     uint64
}

// heap returns how many bytes are in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Read implements io.Reader.
func (e *Endless) Read(p []byte) (n int, err error) {
	if e.before == 0 {
		e.Text = strings.Repeat(e.Text, 1+(1<<20)/len(e.Text))
		e.before = heap()
	}
	if e.read >= e.next {
		if now := heap(); now > e.before {
			e.Peak = max(e.Peak, now-e.before)
		}
		e.next = e.read + 8<<20
	}
	if e.Size > 0 && e.read >= e.Size {
		return 0, io.EOF
	}
	n = copy(p, e.Text[e.read%len(e.Text):])
	e.read += n
	return n, nil
}
