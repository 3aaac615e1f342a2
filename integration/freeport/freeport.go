// Package freeport gives tests addresses for the servers that they start.
package freeport

import (
	"errors"
	"math/rand/v2"
)

// The ports are below those that systems give to outgoing connections, so that none
// of them takes one before a server does.
const (
	least = 10000
	ports = 20000
)

// Take returns an address of the loopback interface that is not in use. On Linux no Take
// returns it again before release is called.
func Take() (addr string, release func(), err error) {
	for range 1000 {
		if addr, release, err = take(least + rand.IntN(ports)); err == nil {
			return addr, release, nil
		}
	}
	return "", nil, errors.Join(errors.New("no free port"), err)
}
