package proxy

import "sync"

// buffers are the buffers that streams are repaired into. A stream has one while
// it is fed, so that one that is idle takes no memory for it, and what the others
// have just used is still in the cache.
type buffers struct{ pool sync.Pool }

// buffer is one of them, of the length 0.
type buffer struct{ b []byte }

// maxPooled is the size in bytes up to which a buffer is used again.
const maxPooled = 64 << 10

func (p *buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

// put gives a buffer back, which has become used. Nobody may look at that any
// more.
func (p *buffers) put(b *buffer, used []byte) {
	if cap(used) > maxPooled {
		return
	}
	b.b = used[:0]
	p.pool.Put(b)
}
