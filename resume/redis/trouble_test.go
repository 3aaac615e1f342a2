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
			set := func(o *Options) {
				o.Username, o.Password = "replica", "the-password"
				o.Lease, o.Timeout = time.Second, 200*time.Millisecond
			}
			a, logsA := server.replica(set)
			b, logsB := server.replica(set)
			rest := make(chan struct{})
			upstream := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, event(1))
				if r.Header.Get("Wait") != "" {
					_ = http.NewResponseController(w).Flush() // or it fails below
					<-rest
				}
				fmt.Fprint(w, event(2))
			}
			here, there := front(t, a, upstream), front(t, b, upstream)
			first := ask(t, here, "POST", "/v1/chat/completions", "Idempotency-Key", "1", "Wait", "1")
			id := first.Header.Get("X-Hermes-Stream")
			want := fmt.Sprintf("data: 1\nid: %s/1\n\ndata: 2\nid: %[1]s/2\n\n", id)
			other := ask(t, there, "POST", "/v1/chat/completions", "Idempotency-Key", "1")
			if got, err := bufio.NewReader(other.Body).ReadString('\n'); got != "data: 1\n" {
				t.Fatalf("at the other replica it begins with %q, %v", got, err)
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
			close(rest)
			if got := body(t, first); got != want {
				t.Errorf("the first client has %q, want %q", got, want)
			}
			for i, h := range []*httptest.Server{here, there} {
				next := ask(t, h, "POST", "/v1/chat/completions", "Idempotency-Key", fmt.Sprint("next ", i))
				got := body(t, next)
				if id := next.Header.Get("X-Hermes-Stream"); id != "" {
					got = strings.NewReplacer("id: "+id+"/1\n", "", "id: "+id+"/2\n", "").Replace(got)
				}
				if got != event(1)+event(2) {
					t.Errorf("a new client at %d has %q", i, got)
				}
			}
			_, _ = io.ReadAll(other.Body) // it ends, one way or the other
			for _, line := range append(logsA.All(), logsB.All()...) {
				if strings.Contains(fmt.Sprint(line), "the-password") {
					t.Errorf("the password is in a log: %v", line)
				}
			}
		})
	}
}
