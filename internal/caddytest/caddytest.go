// Package caddytest has what the tests of several packages below caddymodule share.
package caddytest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for an event, however busy the machine is.
const Patience = 4 * time.Minute

// Refusing returns an address of the loopback interface that refuses
// connections: it is the client's end of one, so that no server can listen there.
func Refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// Files returns the names and contents of the files in dir. Those whose name begins with
// the prefix must be for their owner only.
func Files(t *testing.T, dir, prefix string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 && strings.HasPrefix(e.Name(), prefix) {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	return files
}
