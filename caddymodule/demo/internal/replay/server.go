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

// A Server is an HTTP server on the loopback interface.
type Server struct {
	srv  *http.Server
	addr string
}

// Listen starts a server for h at addr, host and port, where port 0 means any
// free one. Only loopback addresses are allowed. The error for a port that is
// taken says so.
func Listen(addr string, h http.Handler) (*Server, error) {
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
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go srv.Serve(ln)
	return &Server{srv: srv, addr: ln.Addr().String()}, nil
}

// Addr is the address that the server listens on, host and port.
func (s *Server) Addr() string { return s.addr }

// Close ends all streams and frees the port.
func (s *Server) Close() error { return s.srv.Close() }

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
