package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// checkAnswer checks the header and the body of an error as JSON.
func checkAnswer(t *testing.T, h http.Header, body []byte, code string, running bool) {
	t.Helper()
	if got := h.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q, want application/json", got)
	}
	if got, want := h.Get("Content-Length"), fmt.Sprint(len(body)); got != want {
		t.Errorf("Content-Length %q, want %q", got, want)
	}
	var a struct {
		Error struct {
			Message, Type, Code string
			Param               any
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("the answer %q is no JSON: %v", body, err)
	}
	if a.Error.Code != code || a.Error.Type != "upstream_error" || a.Error.Message == "" || a.Error.Param != nil {
		t.Errorf("the answer is %s, want an upstream_error with a message, param null and the code %s", body, code)
	}
	retry, says := "", strings.HasSuffix(a.Error.Message, "; the agent may be running")
	if running {
		retry = "false"
	}
	if got := h.Get("X-Should-Retry"); got != retry || says != running {
		t.Errorf("X-Should-Retry %q with %q; the agent may be running: %v", got, a.Error.Message, running)
	}
}

// onlyReader hides all but Read, so that io.Copy asks the writer for ReadFrom.
type onlyReader struct{ io.Reader }

// errTest is some error of a handler.
var errTest = errors.New("some error")

// timedOut is an error of a handler that is a timeout.
type timedOut struct{}

func (timedOut) Error() string { return "timed out" }
func (timedOut) Timeout() bool { return true }
