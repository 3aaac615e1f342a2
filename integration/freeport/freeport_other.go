//go:build !linux

package freeport

import (
	"errors"
	"net"
	"strconv"
	"sync"
)

var (
	mu    sync.Mutex
	taken = map[int]bool{}
)

// take checks that the port is not in use, and remembers what this process has taken.
func take(port int) (addr string, release func(), err error) {
	mu.Lock()
	defer mu.Unlock()
	if taken[port] {
		return "", nil, errors.New("taken already")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return "", nil, err
	}
	defer l.Close()
	taken[port] = true
	return l.Addr().String(), func() {
		mu.Lock()
		defer mu.Unlock()
		delete(taken, port)
	}, nil
}
