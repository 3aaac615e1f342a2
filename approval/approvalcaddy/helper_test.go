package approvalcaddy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
	"github.com/hermes-sidecar/hermes-sidecar/approval/approvalcaddy"
)

const timeout = time.Hour // of tickets, that no test waits for

// site is a Caddy with one site, at a socket, and the client of it.
type site struct {
	t      *testing.T
	dir    string // where the sockets are
	loads  int
	log    string // the access log
	client *http.Client
}

// newSite starts Caddy with a site that has these directives. What they let pass gets 299.
func newSite(t *testing.T, directives string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "approvals") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, dir: dir, log: filepath.Join(dir, "log")}
	s.load(directives)
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	// A connection that is kept may be one that a reload is closing.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.socket()) }}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	return s
}

// socket returns the path of the socket of the newest configuration.
func (s *site) socket() string { return filepath.Join(s.dir, strconv.Itoa(s.loads)) }

// load replaces the configuration. Each has a socket of its own: after a reload, the servers before it
// may still accept connections of a socket that they share with the new ones.
func (s *site) load(directives string) {
	s.t.Helper()
	s.loads++
	file := "{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\torder respond last\n\tstorage file_system " + filepath.Dir(s.log) + "\n\tlog default {\n\t\toutput discard\n\t}\n}\nhttp:// {\n\tbind unix/" + s.socket() + "\n\tlog {\n\t\toutput file " + s.log + "\n\t}\n" +
		directives + "\n\trespond passed 299\n}\n"
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(file), nil)
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		s.t.Fatalf("%v in\n%s", err, file)
	}
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
	r, err := http.NewRequest(method, "http://page.test"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Add(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
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
func (s *site) choose(path string, c approval.Choice, header ...string) answer {
	s.t.Helper()
	return s.send("POST", path, url.Values{"choice": {string(c)}}.Encode(),
		append(header, "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://page.test", "Sec-Fetch-Site", "same-origin")...)
}

// raw sends bytes, and returns the status line and all that follows.
func (s *site) raw(request string) (status, rest string) {
	s.t.Helper()
	c, err := net.Dial("unix", s.socket())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(c)
	status, err = r.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(status), string(b)
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
	sent   []approval.Choice
	result approval.Result
	err    error
	during func()
}

func (u *upstream) send(_ context.Context, _ approval.Request, c approval.Choice) (approval.Result, error) {
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
var all = []approval.Choice{approval.Once, approval.Session, approval.Always, approval.Deny}

// ticket makes a ticket of the process for a command, and returns the path of its page.
func (u *upstream) ticket(t *testing.T, command string, with ...func(*approval.Asker, *approval.Request)) (*approval.Ticket, string) {
	t.Helper()
	if u.result == approval.Refused && u.err == nil {
		u.result = approval.Accepted
	}
	a := approval.Asker{Owner: [32]byte{1}, Link: "http://page.test/hermes/approve", Timeout: timeout, Send: u.send}
	q := approval.Request{RunID: "run " + t.Name(), ID: approvalID(), Command: command, Description: "recursive delete", Tool: "terminal", Choices: all}
	for _, f := range with {
		f(&a, &q)
	}
	s := approvalcaddy.OfProcess().Stream(a)
	ticket := s.Ask(q)
	if ticket == nil {
		t.Fatal("no ticket")
	}
	t.Cleanup(func() { s.Done("") })
	return ticket, "/hermes/approve/" + ticket.ID()
}

var ids = struct {
	sync.Mutex
	n int
}{}

// approvalID returns the id of another request.
func approvalID() string {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return "request " + strings.Repeat("x", ids.n)
}
