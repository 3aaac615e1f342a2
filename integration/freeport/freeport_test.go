package freeport

import (
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// No two callers get the same port, however many ask.
func TestPortsDiffer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux keeps a port")
	}
	const n = 500
	var all sync.WaitGroup
	addrs := make([]string, n)
	for i := range addrs {
		all.Go(func() {
			addr, release, err := Take()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(release)
			addrs[i] = addr
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, addr := range addrs {
		if seen[addr] {
			t.Errorf("%s twice", addr)
		}
		seen[addr] = true
		_, port, _ := strings.Cut(addr, ":")
		p, _ := strconv.Atoi(port)
		if _, release, err := take(p); err == nil {
			release()
			t.Fatalf("%s can be taken again", addr)
		}
	}
}

// A connection to it is refused until a server listens, which it may do on this
// address and on all, and again.
func TestAServerListensOnIt(t *testing.T) {
	addr, release, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, port, _ := strings.Cut(addr, ":")
	for _, on := range []string{addr, ":" + port, addr} {
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("before a server listens: %v %v", c, err)
		}
		l, err := net.Listen("tcp", on)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
}
