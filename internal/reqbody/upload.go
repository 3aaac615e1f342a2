package reqbody

import (
	"io"
	"sync"
	"time"
)

// upload is a body that the client still sends while upstream reads it. It
// records until when the client has been waited for.
//
// Its mutex is not held while the client is read: that may take as long as the
// client likes.
type upload struct {
	io.ReadCloser
	now func() time.Time

	mu      sync.Mutex
	reading int       // how many reads are under way
	last    time.Time // the end of the last one
	err     error     // what broke the body off
	closed  bool
}

func (u *upload) Read(b []byte) (int, error) {
	u.mu.Lock()
	u.reading++
	u.mu.Unlock()
	n, err := u.ReadCloser.Read(b)
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading--
	u.last = now
	if err != nil && err != io.EOF && !u.closed { //nolint:errorlint // the end is that very value
		u.err = err
	}
	return n, err
}

// Close closes the body. Errors of reads that it ends are not the client's.
func (u *upload) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	return u.ReadCloser.Close()
}
