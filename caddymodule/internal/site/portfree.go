package site

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PortFree returns an error if nobody could listen on addr, host and port.
// Caddy itself would share a port with another Caddy, for it sets SO_REUSEPORT
// (listen_unix.go).
func PortFree(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program", addr)
	}
	if err != nil {
		return err
	}
	return ln.Close()
}
