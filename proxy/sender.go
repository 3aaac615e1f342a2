package proxy

import (
	"runtime/debug"
	"sync"
	"time"
)

// sender sends the headers of streams, with what comes right behind them, from stacks that
// streams share. net/http needs more stack to write a header than anything else in a
// stream does, and a stack keeps the memory that it once needed for as long as its
// goroutine lives. The goroutines stay for a moment, because one for each header would
// cost more, and leave larger stacks to those that come after it.
type sender struct{ next chan *sending }

// sending is what is to be sent. Another goroutine waits for it.
type sending struct {
	client   *client
	b        []byte
	sent     sync.WaitGroup
	err      error
	panicked *latePanic // nil for none
}

// lingering is how long a goroutine waits for more to send.
const lingering = time.Second

// send sends the header and b to the client. Where the writer panics, it panics.
func (q *sender) send(c *client, b []byte) error {
	s := sending{client: c, b: b}
	s.sent.Add(1)
	select {
	case q.next <- &s:
	default: // all wait for their clients
		go q.run(&s)
	}
	s.sent.Wait()
	if s.panicked != nil {
		panic(s.panicked.again())
	}
	return s.err
}

// run sends s, and what comes after it.
func (q *sender) run(s *sending) {
	idle := time.NewTimer(lingering)
	defer idle.Stop()
	for {
		s.send()
		s = nil // the client, and all of its stream
		idle.Reset(lingering)
		select {
		case s = <-q.next:
		case <-idle.C:
			return
		}
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
