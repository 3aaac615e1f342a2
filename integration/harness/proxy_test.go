package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestProxyOfAFastServer: the server answers before the proxy has read the end of the request.
func TestProxyOfAFastServer(t *testing.T) {
	const question, answer = "question", "an answer"
	ended := make(chan struct{}) // the proxy has read the end of the request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, len(question)))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-ended
		io.WriteString(w, answer)
	}))
	defer server.Close()
	proxy := ProxyTo(server.Listener.Addr().String())
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := &lateEnd{ReadCloser: r.Body, begun: make(chan struct{}), ended: ended}
		r.Body = begun
		proxy.ServeHTTP(&noticing{w, begun.begun, sync.Once{}}, r)
	}))
	defer front.Close()
	res, err := http.Post(front.URL, "text/plain", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != answer || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// lateEnd is a body whose end is read after the answer has begun.
type lateEnd struct {
	io.ReadCloser
	begun, ended chan struct{}
	read         bool
	once         sync.Once
}

func (l *lateEnd) Read(p []byte) (int, error) {
	if !l.read {
		l.read = true
		n, err := l.ReadCloser.Read(p)
		if err == io.EOF {
			err = nil
		}
		return n, err
	}
	<-l.begun
	defer l.once.Do(func() { close(l.ended) })
	return l.ReadCloser.Read(p)
}

// noticing notices that the header of an answer has been written.
type noticing struct {
	http.ResponseWriter
	begun chan struct{}
	once  sync.Once
}

func (n *noticing) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (n *noticing) WriteHeader(status int) {
	n.ResponseWriter.WriteHeader(status)
	n.Flush()
}

func (n *noticing) Flush() {
	n.ResponseWriter.(http.Flusher).Flush()
	n.once.Do(func() { close(n.begun) })
}
