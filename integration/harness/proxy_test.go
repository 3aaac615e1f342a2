package harness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProxyOfAFastServer: the server answers before the proxy has read the end of the request.
func TestProxyOfAFastServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctl := http.NewResponseController(w)
		if err := ctl.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		io.ReadFull(r.Body, make([]byte, 1))
		w.WriteHeader(http.StatusOK)
		ctl.Flush()
		io.Copy(w, r.Body)
	}))
	defer server.Close()
	front := httptest.NewServer(ProxyTo(server.Listener.Addr().String()))
	defer front.Close()
	body, question := io.Pipe()
	go io.WriteString(question, "q")
	c := http.Client{Timeout: Patience}
	res, err := c.Post(front.URL, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	go func() {
		io.WriteString(question, "uestion")
		question.Close()
	}()
	if got, err := io.ReadAll(res.Body); string(got) != "uestion" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
