package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestErrorRepliesAreNotAway has commands be refused because of what is in a key: other keys
// work, and nobody takes Redis for away.
func TestErrorRepliesAreNotAway(t *testing.T) {
	for name, spoil := range map[string]func(s *server, l resume.Entry){
		"a log of another type": func(s *server, l resume.Entry) {
			s.do("DEL", "test:log:"+l.ID)
			s.do("SET", "test:log:"+l.ID, "x")
		},
		"no number of events":   func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "n", "x") },
		"no number of pieces":   func(s *server, l resume.Entry) { s.do("HDEL", "test:log:"+l.ID, "p") },
		"no lease":              func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "until", "x") },
		"an entry that is none": func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "e", "x") },
		"another's entry":       func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "e", `{"ID":"stream_other"}`) },
		"a header of null":      func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "h", "null") },
		"no header":             func(s *server, l resume.Entry) { s.do("HDEL", "test:log:"+l.ID, "h") },
		"a state of no log":     func(s *server, l resume.Entry) { s.do("HSET", "test:log:"+l.ID, "s", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			here, _ := server.replica(nil)
			there, _ := server.replica(nil)
			l := claim(t, here, entry("a"), newRun())
			begin(t, l)
			until(t, "it has begun", func() bool {
				v, err := here.look(context.Background(), l.ID, "")
				return err == nil && v.state == resume.Begun
			})
			spoil(server, l.Entry)
			if _, err := there.Find(context.Background(), l.ID); err == nil || errors.Is(err, errAway) {
				t.Errorf("it is found: %v", err)
			}
			if _, w, err := there.Claim(context.Background(), entry("a"), newRun().callbacks()); w != nil || !errors.Is(err, resume.ErrTaken) {
				t.Errorf("the key is claimed: %v, %v", w, err)
			}
			r := there.Read(context.Background(), l.ID, 0)
			defer r.Close()
			if name != "a log of another type" && !strings.HasPrefix(name, "no ") || name == "no header" { // an error reply may pass
				if _, _, err := start(r); err == nil {
					t.Error("it has a header")
				}
			}
			claim(t, there, entry("b"), newRun()).End(resume.Dropped)
			if here.away.Load() || there.away.Load() {
				t.Error("redis is away")
			}
		})
	}
}

// TestPasswordIsNotRepeated has a server that does not know AUTH repeat the password.
func TestPasswordIsNotRepeated(t *testing.T) {
	f := &fake{point: "hello", reply: []byte("-ERR unknown command 'AUTH', with args beginning with: 'hermes' 'the-password'\r\n")}
	f.start(t)
	s, logs := f.replica(t, func(o *Options) { o.Username, o.Password = "hermes", "the-password" })
	if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); err == nil {
		t.Error("it is claimed")
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line); strings.Contains(text, "the-password") || !strings.Contains(text, "unknown command") {
			t.Error(text)
		}
	}
	if logs.Len() == 0 {
		t.Error("nothing is logged")
	}
}
