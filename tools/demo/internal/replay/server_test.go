package replay

import (
	"strings"
	"testing"
)

func TestListenRefusesAddressesThatAreNotLoopback(t *testing.T) {
	for _, addr := range []string{":8642", "0.0.0.0:8642", "[::]:8642", "192.0.2.1:8642", "example.com:8642", "8642", ""} {
		srv, err := Listen(addr, nil)
		if err == nil {
			srv.Close()
			t.Errorf("%q: no error", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:8642", "127.1.2.3:0", "[::1]:8642"} {
		if err := CheckLoopback(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestListenSaysThatAPortIsTaken(t *testing.T) {
	addr := serve(t, nil)
	_, err := Listen(addr, nil)
	if err == nil || !strings.Contains(err.Error(), addr+" is in use") {
		t.Errorf("error %v, want one that says that %s is in use", err, addr)
	}
}
