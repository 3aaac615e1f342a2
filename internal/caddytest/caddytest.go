// Package caddytest has helpers that the tests of several packages share.
package caddytest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for an event, however busy the machine is.
const Patience = 4 * time.Minute

// Refusing returns an address of the loopback interface that refuses connections: it is the
// client's end of a connection, so no server can listen there.
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

// Files returns the names and contents of the files in dir. A file whose name begins with prefix
// must be accessible to its owner only.
func Files(t *testing.T, dir, prefix string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		b, unread := os.ReadFile(filepath.Join(dir, e.Name()))
		err = errors.Join(err, unread)
		files[e.Name()] = string(b)
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 && strings.HasPrefix(e.Name(), prefix) {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Endless is a reader that repeats Text: without end or, if Size is above 0, until it has returned
// Size bytes. Peak is the largest number of heap bytes in use while it was read, minus those in
// use at its first byte.
type Endless struct {
	Text string
	Size int
	Peak int64

	read, next int
	before     int64
}

// heap returns the number of heap bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Read implements io.Reader.
func (e *Endless) Read(p []byte) (n int, err error) {
	if e.before == 0 {
		e.Text = strings.Repeat(e.Text, 1+(1<<20)/len(e.Text))
		e.before = heap()
	}
	if e.read >= e.next {
		e.Peak = max(e.Peak, heap()-e.before)
		e.next = e.read + 8<<20
	}
	if e.Size > 0 && e.read >= e.Size {
		return 0, io.EOF
	}
	n = copy(p, e.Text[e.read%len(e.Text):])
	e.read += n
	return n, nil
}
