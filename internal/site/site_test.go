package site

import (
	"net"
	"strings"
	"testing"
)

func TestPortFree(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := taken.Addr().String()
	if err := PortFree(addr); err == nil || !strings.Contains(err.Error(), addr+" is in use by another program") {
		t.Errorf("taken: %v", err)
	}
	taken.Close()
	if err := PortFree(addr); err != nil {
		t.Errorf("free: %v", err)
	}
	// TEST-NET-1 (RFC 5737) is no address of this machine.
	if err := PortFree("192.0.2.1:8643"); err == nil {
		t.Errorf("an address that is none of this machine's: %v", err)
	}
}
