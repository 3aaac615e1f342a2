package proxytest

import (
	"context"
	"net"
	"sync"
)

// Pipes is a listener in memory, whose connections may be in a bubble. It dials itself.
type Pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	close func()
}

// NewPipes returns a listener that is open.
func NewPipes() *Pipes {
	p := &Pipes{conns: make(chan net.Conn), shut: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.shut) })
	return p
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.close()
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Dial is the DialContext of an http.Transport.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.shut:
		return nil, net.ErrClosed
	}
}
