package deskcaddy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const timeout = time.Hour // of tickets, that no test waits for

// site is a Caddy with one site.
type site struct {
	*caddytest.Site
	t *testing.T
}

// What is around the directives of a site: what they let pass gets 299.
const (
	global = "auto_https off\norder respond last\nlog default {\n output discard\n}"
	access = "log {\n output file LOG\n}\n"
	passed = "\nrespond passed 299"
)

// newSite starts Caddy with a site that has these directives.
func newSite(t *testing.T, directives string) *site {
	t.Helper()
	return &site{caddytest.NewSite(t, global, access+directives+passed), t}
}

// answer is the answer to a request.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// send sends a request; header are names and values.
func (s *site) send(method, path, body string, header ...string) answer {
	s.t.Helper()
	resp, err := s.Send(s.t.Context(), method, path, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{s.t, resp.StatusCode, resp.Header, string(b)}
}

// get opens a page.
func (s *site) get(path string, header ...string) answer {
	s.t.Helper()
	return s.send("GET", path, "", header...)
}

// form is the header of a form.
var form = []string{"Content-Type", "application/x-www-form-urlencoded"}

// choose sends the form as a browser does.
func (s *site) choose(path string, c rewrite.ApprovalChoice, header ...string) answer {
	s.t.Helper()
	return s.send("POST", path, url.Values{"choice": {string(c)}}.Encode(),
		append(header, "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://page.test", "Sec-Fetch-Site", "same-origin")...)
}

// want checks the status, and what is in the body and what not.
func (a answer) want(status int, has ...string) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, text := range has {
		if absent := strings.HasPrefix(text, "!"); strings.Contains(a.body, strings.TrimPrefix(text, "!")) == absent {
			a.t.Errorf("want %q in\n%s", text, a.body)
		}
	}
	return a
}

// upstream is what answers are sent to.
type upstream struct {
	mu     sync.Mutex
	sent   []rewrite.ApprovalChoice
	result desk.Result
	err    error
	during func()
}

func (u *upstream) send(_ context.Context, _ rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
	if u.during != nil {
		u.during()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, c)
	return u.result, u.err
}

var errAway = errors.New("connection refused")

// all are the choices that Hermes offers.
var all = []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always, desk.Deny}

// ticket makes a ticket of the process for a command, and returns the path of its page.
func (u *upstream) ticket(t *testing.T, command string, with ...func(*desk.Asker, *rewrite.ApprovalRequest)) (*desk.Ticket, string) {
	t.Helper()
	if u.result == desk.Refused && u.err == nil {
		u.result = desk.Accepted
	}
	a := desk.Asker{Owner: [32]byte{1}, Link: "http://page.test/hermes/approve", Timeout: timeout, Send: u.send}
	q := rewrite.ApprovalRequest{RunID: "run " + t.Name(), RequestID: fmt.Sprint("request ", ids.Add(1)), Command: command, Description: "recursive delete", Tool: "terminal", Choices: all}
	for _, f := range with {
		f(&a, &q)
	}
	s := hermesapp.OfProcess().Desk.Tickets(a)
	ticket := s.Ask(q)
	if ticket == nil {
		t.Fatal("no ticket")
	}
	t.Cleanup(func() { s.Done("") })
	return ticket, "/hermes/approve/" + ticket.ID()
}

var ids atomic.Int64 // of requests
