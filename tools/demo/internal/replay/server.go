package replay

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Listen starts a server for h at addr, host and port, where port 0 means any free one:
// the server's Addr is the address that it has. Only loopback addresses are allowed. The
// error for a port that is taken says so.
func Listen(addr string, h http.Handler) (*http.Server, error) {
	if err := CheckLoopback(addr); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program, perhaps by Hermes itself", addr)
	}
	if err != nil {
		return nil, err
	}
	srv := &http.Server{
		Addr:              ln.Addr().String(),
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go srv.Serve(ln)
	return srv, nil
}

// CheckLoopback returns an error unless addr is the host and port of a
// loopback address: the demo has no business on a network.
func CheckLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: write it as 127.0.0.1:8642: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %q is not a loopback address: the demo listens on 127.0.0.1 only", addr)
	}
	return nil
}
