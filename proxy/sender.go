package proxy

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// sender sends the headers of streams, with what comes right behind them, from a stack that
// streams share. net/http needs more stack to write a header than anything else in a
// stream does, and a stack keeps the memory that it once needed for as long as its
// goroutine lives. One goroutine waits for the next stream, because one for each header would
// cost more, and leave larger stacks to those that come after it.
type sender struct {
	next    chan *sending // closed when there will be none
	waiting atomic.Bool   // a goroutine is, for the next
}

func newSender() *sender { return &sender{next: make(chan *sending)} }

// end ends the goroutine that waits. Nothing is sent after it.
func (q *sender) end() { close(q.next) }

// sending is what is to be sent. Another goroutine waits for it.
type sending struct {
	client   *client
	b        []byte
	sent     sync.WaitGroup
	err      error
	panicked *latePanic // nil for none
}

// send sends the header and b to the client. Where the writer panics, it panics.
func (q *sender) send(c *client, b []byte) error {
	s := sending{client: c, b: b}
	s.sent.Add(1)
	select {
	case q.next <- &s:
	default:
		go q.run(&s)
	}
	s.sent.Wait()
	if s.panicked != nil {
		panic(s.panicked.again())
	}
	return s.err
}

// run sends s, and what comes after it unless another goroutine waits for that.
func (q *sender) run(s *sending) {
	for s != nil {
		s.send()
		if !q.waiting.CompareAndSwap(false, true) {
			return
		}
		s = <-q.next
		q.waiting.Store(false)
	}
}

func (s *sending) send() {
	defer s.sent.Done()
	defer func() {
		if v := recover(); v != nil {
			s.panicked = &latePanic{v, debug.Stack()}
		}
	}()
	s.err = s.client.send(s.b)
}
