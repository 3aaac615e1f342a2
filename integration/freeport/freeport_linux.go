package freeport

import (
	"fmt"
	"syscall"
)

// take binds a socket to the port and does not listen on it. Then another such socket, of
// any process, cannot be bound to it, a connection is refused, and a server can listen: like
// most it sets SO_REUSEADDR, and so does the socket here after it is bound.
func take(port int) (addr string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("socket: %w", err)
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		syscall.Close(fd)
		return "", nil, fmt.Errorf("port %d: %w", port, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port), func() { syscall.Close(fd) }, nil
}
