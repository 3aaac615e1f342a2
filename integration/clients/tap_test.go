package clients

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A tap hands connections on to an address, byte for byte, and records how many
// requests went through it and when the last bytes came back. Each client has
// its own, so that attempts can be counted where nothing else sees them.
type tap struct {
	ln     net.Listener
	to     string
	mu     sync.Mutex
	posts  int
	reads  int           // of bytes towards the client
	last   time.Time     // when that was
	more   chan struct{} // closed and replaced at every answer
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// newTap listens until the end of the test and hands on to a base URL.
func newTap(t testing.TB, base string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{ln: ln, to: strings.TrimPrefix(base, "http://"), more: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *tap) url() string { return "http://" + p.ln.Addr().String() }

func (p *tap) close() {
	p.ln.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// keep records an open connection, or closes it when the test is over.
func (p *tap) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	if p.closed {
		c.Close()
	}
}

func (p *tap) accept() {
	for {
		down, err := p.ln.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.to)
		if err != nil {
			down.(*net.TCPConn).SetLinger(0) // as refused as it can be
			down.Close()
			p.sawRequest([]byte(post))
			continue
		}
		p.keep(down)
		p.keep(up)
		p.wg.Go(func() { p.pass(up, down, p.sawRequest) })
		p.wg.Go(func() { p.pass(down, up, p.sawAnswer) })
	}
}

// pass copies one direction, and hands on how it ended.
func (p *tap) pass(to, from net.Conn, saw func([]byte)) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			saw(b[:n])
			to.Write(b[:n])
		}
		if err == io.EOF {
			to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			to.(*net.TCPConn).SetLinger(0)
			to.Close()
			from.Close()
			return
		}
	}
}

// post begins every request. Clients send it in one write.
const post = "POST /v1/chat/completions"

func (p *tap) sawRequest(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts += bytes.Count(b, []byte(post))
}

func (p *tap) sawAnswer([]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	p.last = time.Now()
	close(p.more)
	p.more = make(chan struct{})
}

// attempts is how many requests there have been.
func (p *tap) attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posts
}

// answerCount is how often bytes have gone to the client: at most once for each
// write of the server's. No tap has none.
func (p *tap) answerCount() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// awaitAnswers returns when bytes have gone to the client n times, or when the
// sidecar has left.
func (p *tap) awaitAnswers(x *upstream.Exchange, n int) {
	for {
		p.mu.Lock()
		more, enough := p.more, p.reads >= n
		p.mu.Unlock()
		if enough || !x.Wait(more) {
			return
		}
	}
}

// lastAnswer is when the last bytes went to the client.
func (p *tap) lastAnswer() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
