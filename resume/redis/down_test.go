package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestRedisIsKilled in the middle: clients at the run's replica notice nothing, others are cut
// off after a lease. A new request without a key is refused at once, a key waits, and
// one that runs here does not run again. When Redis is back, all is well.
func TestRedisIsKilled(t *testing.T) {
	server := startServer(t)
	here, logs := server.replica(mortal)
	there, _ := server.replica(mortal)
	adoptsNothing(there)
	run := newRun()
	l := begun(t, here, entry("a"), run)
	add(t, l, event(1))
	ours, elsewhere := follow(t, here, l.ID), follow(t, there, l.ID)
	read(t, elsewhere, len(event(1)))
	until(t, "two read", func() bool { return int(run.readers.Load()) == 2 })
	server.kill()
	killed := time.Now()
	add(t, l, event(2))
	if _, err := all(elsewhere); !errors.Is(err, log.ErrBroken) {
		t.Errorf("there: %v", err)
	}
	until(t, "the log is lost", l.Writer.(*owned).lost.Load)
	until(t, "one reads", func() bool { return int(run.readers.Load()) == 1 })
	if _, _, err := here.Claim(context.Background(), entry(""), newRun().callbacks()); err == nil {
		t.Error("a claim succeeds")
	}
	waits := make(chan error)
	go func() { // which no prompt refusal ends: the key may be in use elsewhere
		_, _, err := there.Claim(context.Background(), entry("b"), newRun().callbacks())
		waits <- err
	}()
	known := func() {
		t.Helper()
		if wantKey(t, here, "a", l.Entry); !found(t, here, l.ID) {
			t.Error("a stream that runs is not found")
		}
	}
	known()
	if _, err := there.Find(context.Background(), l.ID); !errors.Is(err, errDown) {
		t.Errorf("there it is found with %v", err)
	}
	select {
	case err := <-waits:
		t.Fatalf("a claim of a key does not wait: %v", err)
	case <-time.After(3 * time.Second):
	}
	server.start(program(t))
	if err := <-waits; err != nil {
		t.Error(err)
	}
	adoptsNothing(there)
	known()
	add(t, l, event(3))
	l.End(log.Whole)
	wantRest(t, ours, event(1)+event(2)+event(3), io.EOF)
	wantRest(t, follow(t, here, l.ID), event(1)+event(2)+event(3), io.EOF)
	next := begun(t, here, entry("c"), newRun())
	add(t, next, event(1))
	if got := read(t, follow(t, there, next.ID), len(event(1))); got != event(1) {
		t.Errorf("there: %q", got)
	}
	if n, d := logs.FilterMessageSnippet("redis is failing").Len(), time.Since(killed); n < 1 || n > 1+int(d/time.Minute) {
		t.Errorf("%d warnings in %v", n, d)
	}
}

// TestRepliesOfAServerThatIsDown tells those that a server gives to everybody from those to one command.
func TestRepliesOfAServerThatIsDown(t *testing.T) {
	for reply, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory": true, "BUSY Redis is busy running a script": true,
		"MASTERDOWN Link with MASTER is down": true, "READONLY You can't write against a read only replica.": true,
		"NOREPLICAS Not enough good replicas to write.": true, "ERR max number of clients reached": true,
		"CLUSTERDOWN The cluster is down": true, "TRYAGAIN Multiple keys request during rehashing of slot": true,
		"MOVED 1 127.0.0.1:1": true, "ASK 1 127.0.0.1:1": true,
		"ERR no": false, "WRONGTYPE Operation against a key": false, "NOPERM this user has no permissions": false,
		"OOM command not allowed when used memory > 'maxmemory'.": false,
	} {
		s, _ := answering(t, "-"+reply+"\r\n", func(o *Options) { o.Timeout = patience })
		if _, err := s.Find(context.Background(), "stream_a"); errors.Is(err, errDown) != want {
			t.Errorf("%s: %v", reply, err)
		}
	}
}

// TestRedisIsSoonBack has Redis answer no connection: while it is down, it is asked more often than once
// a second.
func TestRedisIsSoonBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		o := Options{Timeout: time.Second, Logger: zap.NewNop(), UniversalOptions: goredis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}}
		s := &Store{o: o, over: make(chan struct{}), client: o.connectBy(func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, errors.New("it is down")
		})}
		ctx, stop := context.WithCancel(context.Background())
		go s.watch(ctx)
		time.Sleep(2*time.Second + retryAfter/2)
		synctest.Wait()
		if want := int(time.Second / retryAfter); dials < want {
			t.Errorf("asked %d times in the second after the first time, want %d", dials, want)
		}
		stop()
		<-s.over
	})
}

// TestPasswordIsNotRepeated has a server that does not know AUTH repeat the password.
func TestPasswordIsNotRepeated(t *testing.T) {
	const reply = "-ERR unknown command 'AUTH', with args beginning with: 'hermes' 'the-password' 'the-other-password'\r\n"
	s, logs := answering(t, reply, func(o *Options) {
		o.Username, o.Password, o.SentinelPassword, o.Timeout = "hermes", "the-password", "the-other-password", patience
	})
	if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); err == nil {
		t.Error("it is claimed")
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line); strings.Contains(text, "-password") || !strings.Contains(text, "unknown command") {
			t.Error(text)
		}
	}
	if logs.Len() == 0 {
		t.Error("nothing is logged")
	}
}

// TestConnectionsAreKilled again and again, and commands wait for a while: nothing is lost.
func TestConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	here, there := server.replicas()
	l := begun(t, here, entry("a"), newRun())
	r := follow(t, there, l.ID)
	want := ""
	for n := range 200 {
		add(t, l, event(n))
		want += event(n)
		command := []any{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}
		if n%20 == 0 {
			command = []any{"CLIENT", "PAUSE", 20, []string{"ALL", "WRITE"}[n/20%2]}
		}
		server.do(command...)
	}
	l.End(log.Whole)
	wantRest(t, r, want, io.EOF)
}

// troubles are what may become of Redis. The last command of each may be the last one that
// it takes.
var troubles = map[string]func(s *server){
	"full":              does("CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"),
	"read-only":         does("REPLICAOF 127.0.0.1 1"),
	"empty":             does("FLUSHALL"),
	"paused":            does("CLIENT PAUSE 1000000 ALL"),
	"paused for writes": does("CLIENT PAUSE 1000000 WRITE"),
	"without rights":    does("ACL SETUSER replica -@all", "CLIENT KILL USER replica"),
	"another password":  does("ACL SETUSER replica resetpass >another", "CLIENT KILL USER replica"),
	"no more clients":   does("CONFIG SET maxclients 1", "CLIENT KILL USER replica"),
	"busy":              func(s *server) { go s.client.Eval(context.Background(), "while true do end", nil) },
	"stopped": func(s *server) {
		if err := syscall.Kill(s.pid(), syscall.SIGSTOP); err != nil {
			s.t.Fatal(err)
		}
	},
	"killed": (*server).kill,
}

// does has a server do commands.
func does(commands ...string) func(s *server) {
	return func(s *server) {
		for _, command := range commands {
			var words []any
			for word := range strings.FieldsSeq(command) {
				words = append(words, word)
			}
			s.do(words...)
		}
	}
}

// TestAnswersPassWhateverRedisDoes has the first client get all of its answer, whether trouble
// comes before it or in the middle. A client that reads it at another replica does not wait
// for ever, and a new client there gets its answer.
func TestAnswersPassWhateverRedisDoes(t *testing.T) {
	for name, comes := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			server.allow("replica", "the-password", []string{"~*", "+@all"})
			x := before(t, server, time.Second)
			for lease := 2 * time.Second; x == nil; lease *= 2 { // the machine is too busy for so short a one
				x = before(t, server, lease)
			}
			comes(server)
			close(x.rest)
			id := x.first.Header.Get(resume.StreamHeader)
			want := fmt.Sprintf("data: 1\nid: %s/1\n\ndata: 2\nid: %[1]s/2\n\n", id)
			if got := body(t, x.first); got != want {
				t.Errorf("the first client has %q, want %q", got, want)
			}
			for i, h := range x.fronts {
				next := ask(t, h, "POST", "/v1/chat/completions", "Idempotency-Key", fmt.Sprint("next ", i))
				got := body(t, next)
				if id := next.Header.Get(resume.StreamHeader); id != "" {
					got = strings.NewReplacer("id: "+id+"/1\n", "", "id: "+id+"/2\n", "").Replace(got)
				}
				if got != event(1)+event(2) {
					t.Errorf("a new client at %d has %q", i, got)
				}
			}
			_, _ = io.ReadAll(x.other.Body) // it ends, one way or the other
			for _, logs := range x.logs {
				if strings.Contains(fmt.Sprint(logs.All()), "the-password") {
					t.Errorf("the password is in a log: %v", logs.All())
				}
			}
		})
	}
}

// scene is the state before trouble comes: two replicas, and two clients that have the first
// event of a stream that one of these runs.
type scene struct {
	fronts       [2]*httptest.Server
	logs         [2]*observer.ObservedLogs
	first, other *http.Response
	rest         chan struct{} // closed when upstream is to go on
}

// before makes a scene with a lease. It returns nil if the machine is too busy for that.
func before(t *testing.T, server *server, lease time.Duration) *scene {
	t.Helper()
	x := &scene{rest: make(chan struct{})}
	for i := range x.fronts {
		s, logs := server.replica(func(o *Options) { o.Lease, o.Timeout = lease, lease/5 })
		x.logs[i] = logs
		x.fronts[i] = front(t, s, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, event(1))
			if r.Header.Get("Wait") != "" {
				_ = http.NewResponseController(w).Flush() // or no client gets it
				<-x.rest
			}
			fmt.Fprint(w, event(2))
		})
	}
	key := lease.String()
	x.first = ask(t, x.fronts[0], "POST", "/v1/chat/completions", "Idempotency-Key", key, "Wait", "1")
	x.other = ask(t, x.fronts[1], "POST", "/v1/chat/completions", "Idempotency-Key", key)
	begun, err := bufio.NewReader(x.other.Body).ReadString('\n')
	id := x.first.Header.Get(resume.StreamHeader)
	if id == "" || x.other.Header.Get(resume.StreamHeader) != id || begun != "data: 1\n" || err != nil {
		close(x.rest)
		return nil
	}
	return x
}
