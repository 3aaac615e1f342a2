package reqbody

import (
	"bytes"
	"io"
	"sync"
)

// Again returns a request body with the bytes b, which were read from the original body. It
// releases b once it has been read or closed, because an answer keeps its request for as long as
// it takes.
func Again(b []byte) io.ReadCloser { return &again{rest: *bytes.NewReader(b)} }

type again struct {
	mu   sync.Mutex // net/http's transport for HTTP/2 may close it while it reads
	rest bytes.Reader
}

func (a *again) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.rest.Read(p)
	if a.rest.Len() == 0 {
		a.rest.Reset(nil)
	}
	return n, err
}

func (a *again) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rest.Reset(nil)
	return nil
}
