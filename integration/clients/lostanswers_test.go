package clients

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A scissors is a way to a sidecar whose connections a test ends.
type scissors struct {
	url  string
	mu   sync.Mutex
	all  []net.Conn
	sent strings.Builder // to clients
}

// newScissorsTo makes a way to a URL.
func newScissorsTo(t testing.TB, base string) *scissors {
	s := &scissors{}
	s.url = relay(t, base, func(down *net.TCPConn, dial func() (net.Conn, error)) {
		to, err := dial()
		if err != nil {
			return
		}
		defer to.Close()
		s.mu.Lock()
		s.all = append(s.all, down)
		s.mu.Unlock()
		go func() {
			pass(to, down, func([]byte) {})
			to.Close()
		}()
		pass(down, to, func(b []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sent.Write(b)
		})
	})
	return s
}

// cut ends all connections that there are.
func (s *scissors) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		c.Close()
	}
	s.all = nil
}

// passed waits until a text has come by so many times.
func (s *scissors) passed(t testing.TB, text string, n int) {
	t.Helper()
	harness.Until(t, text+" comes by", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Count(s.sent.String(), text) >= n
	})
}
