package redis

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"
)

// troubles are what may become of Redis. The last command of each may be the last one that
// it takes.
var troubles = map[string][][]any{
	"full":              {{"CONFIG", "SET", "maxmemory-policy", "noeviction"}, {"CONFIG", "SET", "maxmemory", "1"}},
	"read-only":         {{"REPLICAOF", "127.0.0.1", "1"}},
	"empty":             {{"FLUSHALL"}},
	"paused":            {{"CLIENT", "PAUSE", "1000000", "ALL"}},
	"paused for writes": {{"CLIENT", "PAUSE", "1000000", "WRITE"}},
	"without rights":    {{"ACL", "SETUSER", "replica", "-@all"}, {"CLIENT", "KILL", "USER", "replica"}},
	"another password":  {{"ACL", "SETUSER", "replica", "resetpass", ">another"}, {"CLIENT", "KILL", "USER", "replica"}},
	"no more clients":   {{"CONFIG", "SET", "maxclients", "1"}, {"CLIENT", "KILL", "USER", "replica"}},
	"busy":              nil, // with a script of somebody else's
	"stopped":           nil,
	"killed":            nil,
}

// TestAnswersPassWhateverRedisDoes has the first client get all of its answer, whether trouble
// comes before it or in the middle. One who reads it at another replica is not kept waiting
// for ever, and a new client there gets its answer.
func TestAnswersPassWhateverRedisDoes(t *testing.T) {
	for name, commands := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			server.do("ACL", "SETUSER", "replica", "on", ">the-password", "~*", "+@all")
			x := before(t, server, time.Second)
			for lease := 2 * time.Second; x == nil; lease *= 2 { // the machine is too busy for so short a one
				x = before(t, server, lease)
			}
			pid := server.pid()
			for _, command := range commands {
				server.do(command...)
			}
			switch name {
			case "killed":
				server.kill()
			case "stopped":
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			case "busy":
				go server.client.Eval(context.Background(), "while true do end", nil)
			}
			close(x.rest)
			id := x.first.Header.Get("X-Hermes-Stream")
			want := fmt.Sprintf("data: 1\nid: %s/1\n\ndata: 2\nid: %[1]s/2\n\n", id)
			if got := body(t, x.first); got != want {
				t.Errorf("the first client has %q, want %q", got, want)
			}
			for i, h := range []*httptest.Server{x.here, x.there} {
				next := ask(t, h, "POST", "/v1/chat/completions", "Idempotency-Key", fmt.Sprint("next ", i))
				got := body(t, next)
				if id := next.Header.Get("X-Hermes-Stream"); id != "" {
					got = strings.NewReplacer("id: "+id+"/1\n", "", "id: "+id+"/2\n", "").Replace(got)
				}
				if got != event(1)+event(2) {
					t.Errorf("a new client at %d has %q", i, got)
				}
			}
			_, _ = io.ReadAll(x.other.Body) // it ends, one way or the other
			for _, line := range append(x.hereLogs.All(), x.thereLogs.All()...) {
				if strings.Contains(fmt.Sprint(line), "the-password") {
					t.Errorf("the password is in a log: %v", line)
				}
			}
		})
	}
}

// scene is what is there before trouble comes: two replicas, and two clients that have the first
// event of a stream that one of these runs.
type scene struct {
	here, there         *httptest.Server
	hereLogs, thereLogs *observer.ObservedLogs
	first, other        *http.Response
	rest                chan struct{} // closed when upstream is to go on
}

// before makes a scene with a lease. It returns nil if the machine is too busy for that.
func before(t *testing.T, server *server, lease time.Duration) *scene {
	t.Helper()
	set := func(o *Options) {
		o.Username, o.Password = "replica", "the-password"
		o.Lease, o.Timeout = lease, lease/5
	}
	x := &scene{rest: make(chan struct{})}
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event(1))
		if r.Header.Get("Wait") != "" {
			_ = http.NewResponseController(w).Flush() // or nobody gets it
			<-x.rest
		}
		fmt.Fprint(w, event(2))
	}
	a, hereLogs := server.replica(set)
	b, thereLogs := server.replica(set)
	x.hereLogs, x.thereLogs = hereLogs, thereLogs
	x.here, x.there = front(t, a, upstream), front(t, b, upstream)
	key := lease.String()
	x.first = ask(t, x.here, "POST", "/v1/chat/completions", "Idempotency-Key", key, "Wait", "1")
	x.other = ask(t, x.there, "POST", "/v1/chat/completions", "Idempotency-Key", key)
	begun, err := bufio.NewReader(x.other.Body).ReadString('\n')
	if id := x.first.Header.Get("X-Hermes-Stream"); id == "" || x.other.Header.Get("X-Hermes-Stream") != id || begun != "data: 1\n" || err != nil {
		close(x.rest)
		return nil
	}
	return x
}
