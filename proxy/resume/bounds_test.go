package resume_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// kept returns how many bytes of a log that has ended somebody who comes back gets.
func kept(t *testing.T, l resume.Log) int {
	t.Helper()
	r, err := l.Follow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var gone *resume.GoneError
	if err := r.Seek(0); errors.As(err, &gone) {
		err = r.Seek(gone.First - 1)
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(b)
	}
}

// TestMaxStreamCountsBytes: of events of any size as many are there as the limit says, and
// they take little more than their size.
func TestMaxStreamCountsBytes(t *testing.T) {
	const most = 4 << 20
	for _, size := range []int{200, 1000, 5000, 8400, 12000, 16300, 17000, 40000, 100000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := resume.NewMemory(nil)
			before := heap()
			w := claim(t, s, resume.Entry{ID: "a", MaxStream: most, MaxMemory: 1 << 30, Keep: time.Hour})
			w.fill(t, 3*most, size)
			w.log.End(true)
			n, grown := kept(t, w.log), heap()-before
			if n < most-most/20-size {
				t.Errorf("%d bytes are there, of %d that may be", n, most)
			}
			if grown > int64(n+n/20+size+128<<10) {
				t.Errorf("%d bytes take %d of the heap", n, grown)
			}
			runtime.KeepAlive(w)
		})
	}
}
