package deskcaddy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// login is a program with users that is asked who is signed in.
type login struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // request lines and headers
	reply map[string]http.HandlerFunc
}

// newLogin has a reply for each cookie.
func newLogin(t *testing.T) *login {
	l := &login{}
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/form")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	l.reply = map[string]http.HandlerFunc{
		"token=alice":   says(200, `{"token": "t", "id": "alice", "name": "{http.vars.x}"}`),
		"token=bob":     says(200, `{"id": "bob"}`),
		"token=old":     says(401, `{"detail": "expired", "id": "alice"}`),
		"token=api":     says(403, `{"id": "alice"}`),
		"token=moved":   says(302, `{"id": "alice"}`),
		"token=broken":  says(500, `{"id": "alice"}`),
		"token=page":    says(200, `<html>alice</html>`),
		"token=nobody":  says(200, `{"id": ""}`),
		"token=unnamed": says(200, `{"name": "alice"}`),
		"token=number":  says(200, `{"id": 1}`),
		"token=large":   says(200, `{"picture": "`+strings.Repeat("x", 1<<20)+`", "id": "alice"}`),
		"token=picture": says(200, `{"picture": "`+strings.Repeat("x", 1<<19)+`", "id": "alice"}`),
	}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.asked = append(l.asked, fmt.Sprint(r.Method, r.URL, r.Header))
		l.mu.Unlock()
		if r.URL.Path != "/api/v1/auths/" {
			says(200, `{"id": "alice"}`)(w, r)
			return
		}
		l.reply[r.Header.Get("Cookie")](w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

// TestLogin: the page is for the user whom the login knows by the cookies, and for nobody else.
func TestLogin(t *testing.T) {
	l := newLogin(t)
	s := newSite(t, "hermes_approvals {\n login "+l.URL+"/api/v1/auths/\n }")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.By = "alice" })
	_, other := u.ticket(t, "rm -rf other", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.By = "nobody" })
	const signIn = "Sign in where you chat"
	for cookie, want := range map[string]int{
		"": 401, "token=old": 401, "token=api": 401, "token=moved": 401,
		"token=broken": 502, "token=page": 502, "token=nobody": 502, "token=unnamed": 502, "token=number": 502, "token=large": 502,
		"token=bob": 404,
	} {
		header := []string{"Cookie", cookie}
		if cookie == "" {
			header = nil
		}
		a := s.get(path, header...).want(want, "!victim")
		if (want == 401) != strings.Contains(a.body, signIn) {
			t.Errorf("%q: %s", cookie, a.body)
		}
		s.choose(path, desk.Once, header...).want(want, "!victim")
		s.get(other, header...).want(want)
	}
	if len(u.sent) != 0 {
		t.Fatalf("sent %q", u.sent)
	}
	s.get(path, "Cookie", "token=picture").want(200, "rm -rf victim")
	s.get(other, "Cookie", "token=alice").want(404)
	s.choose(path, desk.Once, "Cookie", "token=alice").want(200, "The command runs, once.")
	for _, asked := range l.asked {
		if strings.Contains(asked, path[strings.LastIndex(path, "/"):]) || !strings.HasPrefix(asked, "GET/api/v1/auths/ map[") || strings.Contains(asked, "Origin") {
			t.Errorf("the login was asked %s", asked)
		}
	}
	n := len(l.asked)
	s.get("/elsewhere", "Cookie", "token=alice").want(299)
	if len(l.asked) != n {
		t.Error("the login is asked for other paths")
	}
	l.Close()
	s.get(path, "Cookie", "token=alice").want(502, "does not answer")
}

// TestLoginWithBy: what by says has the last word.
func TestLoginWithBy(t *testing.T) {
	l := newLogin(t)
	s := newSite(t, "hermes_approvals {\n login "+l.URL+"/api/v1/auths/\n by openwebui-{http.auth.user.id}\n }")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim", func(a *desk.Asker, _ *rewrite.ApprovalRequest) { a.By = "openwebui-alice" })
	s.get(path, "Cookie", "token=alice").want(200, "rm -rf victim")
	s.get(path, "Cookie", "token=bob").want(404)
}

// TestSlowLogin: a login that never answers is not waited for longer than its bound.
func TestSlowLogin(t *testing.T) {
	l := newLogin(t)
	over := make(chan struct{})
	l.reply["token=alice"] = func(http.ResponseWriter, *http.Request) { <-over }
	t.Cleanup(func() { close(over) })
	s := newSite(t, "hermes_approvals {\n login "+l.URL+"/api/v1/auths/\n }")
	var u upstream
	_, path := u.ticket(t, "rm -rf victim")
	began := time.Now()
	s.get(path, "Cookie", "token=alice").want(502, "!victim")
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it has waited for %v only", took)
	}
}
