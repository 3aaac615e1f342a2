package usage

import (
	"context"
	"io/fs"
	"sync"

	"github.com/caddyserver/certmagic"
)

// fakeStorage is storage in memory that counts, fails and hangs on demand.
type fakeStorage struct {
	certmagic.Storage // nil: what is not below must not be called

	mu      sync.Mutex
	values  map[string]string
	loads   int
	stores  int
	deletes int
	fail    error
	hang    chan struct{} // while not closed, calls wait; nil for never
}

// enter counts a call, waits while storage hangs, and takes the lock. It returns what
// the call fails with.
func (s *fakeStorage) enter(count *int) error {
	s.mu.Lock()
	*count++
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	s.mu.Lock()
	return s.fail
}

func (s *fakeStorage) Load(_ context.Context, key string) ([]byte, error) {
	err := s.enter(&s.loads)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v, ok := s.values[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(v), nil
}

func (s *fakeStorage) Store(_ context.Context, key string, value []byte) error {
	err := s.enter(&s.stores)
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.values == nil {
		s.values = make(map[string]string)
	}
	s.values[key] = string(value)
	return nil
}

func (s *fakeStorage) Delete(_ context.Context, key string) error {
	err := s.enter(&s.deletes)
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	if _, ok := s.values[key]; !ok {
		return fs.ErrNotExist
	}
	delete(s.values, key)
	return nil
}

func (s *fakeStorage) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *fakeStorage) counts() (loads, stores, values int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.stores, len(s.values)
}

// has reports whether a pair is stored.
func (s *fakeStorage) has(upstream, model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.values[pairKey(upstream, model)]
	return ok
}
