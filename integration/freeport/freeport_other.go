//go:build !linux

package freeport

import "net"

// take checks that the port is not in use, and does not keep it.
func take(port int) (addr string, release func(), err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return "", nil, err
	}
	return l.Addr().String(), func() {}, l.Close()
}
