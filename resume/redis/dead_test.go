package redis

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// freed is an entry with a key of the configuration's.
func freed(key string) log.Entry {
	e := entry(key)
	e.Once = true
	return e
}

// TestKeyOfADeadReplica has a request with a key of the configuration's come within the lease of a run
// whose replica has died: it runs anew as soon as that is known. Readers of the dead run get its end.
func TestKeyOfADeadReplica(t *testing.T) {
	for name, begins := range map[string]bool{"in the text": true, "before the answer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			dead, _ := server.replica(mortal)
			there, _ := server.replica(mortal)
			l := claim(t, dead, freed("a"), newRun())
			if begins {
				begin(t, l)
				add(t, l, chunk)
				inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
			}
			reads := follow(t, there, l.ID)
			die(dead)
			began := time.Now()
			e := freed("a")
			have, w, err := there.Claim(context.Background(), e, newRun().callbacks())
			if err != nil || w == nil || have.ID != e.ID {
				t.Fatalf("it has %v, %v, %v", have.ID, w, err)
			}
			if d := time.Since(began); d < 200*time.Millisecond {
				t.Errorf("it is dead after %v", d)
			}
			if again, err := claimAgain(there, "a"); err != nil || again.ID != e.ID {
				t.Errorf("the key has %v, %v", again.ID, err)
			}
			finish, err := all(reads)
			if begins && (err != io.EOF || !strings.Contains(finish, chunk) || !strings.Contains(finish, "upstream_aborted")) {
				t.Errorf("a reader gets %q, %v", finish, err)
			}
			w.End(log.Dropped)
		})
	}
}

// TestKeyOfALivingReplica joins the run, at another replica as at its own, and after its end.
func TestKeyOfALivingReplica(t *testing.T) {
	here, there := startServer(t).replicas()
	l := claim(t, here, freed("a"), newRun())
	joins := func() {
		t.Helper()
		for _, s := range []*Store{here, there} {
			if have, w, err := s.Claim(context.Background(), freed("a"), newRun().callbacks()); err != nil || w != nil || have.ID != l.ID {
				t.Fatalf("it has %v, %v, %v", have.ID, w, err)
			}
		}
	}
	joins()
	begin(t, l)
	add(t, l, chunk)
	joins()
	l.End(log.Whole)
	joins()
}

// TestClientsKeyOfADeadReplica keeps a key that a client has made: the agent does not run again for it.
func TestClientsKeyOfADeadReplica(t *testing.T) {
	server := startServer(t)
	dead, _ := server.replica(mortal)
	there, _ := server.replica(mortal)
	l := begun(t, dead, entry("a"), newRun())
	add(t, l, chunk)
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	die(dead)
	for range 2 {
		if e, err := claimAgain(there, "a"); err != nil || e.ID != l.ID {
			t.Errorf("the key has %v, %v", e.ID, err)
		}
		if finish, err := all(follow(t, there, l.ID)); err != io.EOF || !strings.Contains(finish, "upstream_aborted") {
			t.Errorf("it has %q, %v", finish, err)
		}
	}
}
