package queue

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestReloadWithOtherLimits: fewer places end nobody, and none is admitted until there are fewer; more
// are there at once.
func TestReloadWithOtherLimits(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 20), site{queue: []string{"runs 3"}, grace: "10m", hermes: []string{"drain_timeout 10m"}})
	s := p.lines
	for i := range 5 {
		p.ask(chat, fmt.Sprintf("key-%d", i), fmt.Sprintf("slow-%d", i))
		if i < 3 {
			p.Until(t, fmt.Sprintf("slow-%d", i))
		} else {
			p.untilWaiting(i - 2)
		}
	}
	s.queue = []string{"runs 1"}
	p.load(s)
	late := p.ask(chat, "key-5", "slow-5")
	p.untilWaiting(3)
	p.End("slow-0")
	p.End("slow-1")
	harness.Until(t, "one runs", func() bool { return p.Running() == 1 })
	late.says("2 before you")
	if len(p.Heard()) != 3 {
		t.Errorf("upstream has heard %q", p.Heard())
	}
	p.End("slow-2")
	p.Until(t, "slow-3")
	s.queue = []string{"runs 3"}
	p.load(site{route: "respond gone"}) // and back
	p.load(s)
	p.Until(t, "slow-4", "slow-5") // before another request comes
	last := p.ask(chat, "key-6", "slow-6")
	p.Release()
	late.good(chat)
	last.good(chat)
	if p.MostAtOnce() != 3 {
		t.Errorf("%d at once", p.MostAtOnce())
	}
}

// TestReloadDuringABody: a request that has come before a reload, and whose body comes after it, brings no limit back.
func TestReloadDuringABody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, at int }{"fewer": {3, 1, 1}, "more": {1, 2, 2}} {
		p := newPlaceOf(t, hermes.New(t, 20), site{queue: []string{fmt.Sprintf("runs %d", c.before)}, grace: "10m", hermes: []string{"drain_timeout 10m"}})
		p.ask(chat, "key-0", "slow-0")
		p.Until(t, "slow-0")
		conn := client.Dial(t, p.base)
		body := fmt.Sprintf(chat.body, `"typed"`)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", chat.path, conn.RemoteAddr(), len(body))
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); !strings.Contains(line, "100 Continue") { // it is read
			t.Fatalf("%s: %q, %v", name, line, err)
		}
		s := p.lines
		s.queue = []string{fmt.Sprintf("runs %d", c.after)}
		p.load(s)
		for i := 1; i <= c.at; i++ {
			p.ask(chat, fmt.Sprintf("key-%d", i), fmt.Sprintf("slow-%d", i))
		}
		p.untilWaiting(1)
		io.WriteString(conn, body)
		harness.Until(t, "it has come", func() bool { return p.metric("waiting")+p.metric("running") == float64(c.at+2) })
		if waiting := p.metric("waiting"); waiting != 2 {
			t.Errorf("%s: %v wait, want 2", name, waiting)
		}
		p.End("slow-0")
		harness.Until(t, "the first goes on", func() bool { return len(p.Heard()) == c.after+1 })
		if running := p.metric("running"); running != float64(c.after) {
			t.Errorf("%s: %v run, want %d", name, running, c.after)
		}
		p.Release()
		if all, _ := io.ReadAll(conn); !strings.Contains(string(all), "bye") {
			t.Errorf("%s: %s", name, harness.Clip(string(all)))
		}
		if p.MostAtOnce() != c.after {
			t.Errorf("%s: %d at once, want %d", name, p.MostAtOnce(), c.after)
		}
	}
}

// TestStop: who waits when the process stops is told so, and nothing hangs.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, resume := range []string{"", "detach 10m"} {
		p := newPlaceOf(t, hermes.New(t, 20), site{resume: resume, queue: []string{"runs 1"}, grace: "5s", hermes: []string{"drain_timeout 100ms"}})
		p.ask(chat, "key-1", "slow-1")
		p.Until(t, "slow-1")
		all := map[kind]*pending{}
		for _, k := range kinds {
			all[k] = p.ask(k, "key-2", "waits "+k.path)
		}
		for k, q := range all {
			if k.stream {
				q.says("Waiting in line")
			}
		}
		p.untilWaiting(len(kinds))
		p.caddy.Terminate()
		for k, q := range all {
			<-q.done
			if q.err != nil {
				t.Errorf("%s: %v", k.path, q.err)
				continue
			}
			text := q.body.String()
			if resume == "" && !strings.Contains(text, "shutting down") || k.stream != (q.reply.StatusCode == http.StatusOK) || strings.Contains(text, "may be running") {
				t.Errorf("%s: %s %s", k.path, q.reply.Status, harness.Clip(text))
			}
		}
		p.caddy.Exit()
		if heard := p.Heard(); len(heard) != 1 {
			t.Errorf("upstream has heard %q", heard)
		}
	}
}

// TestSitesShareABackend: all sites in front of one backend share its places, and a client of two sites is
// one. The site of another backend has its own.
func TestSitesShareABackend(t *testing.T) {
	t.Parallel()
	other := hermes.New(t, 20)
	p := newPlace(t, 20, "runs 2")
	second, third := harness.FreePort(t), harness.FreePort(t)
	p.loadText(p.caddyfile(p.caddy.Admin, p.lines) +
		sidecar.OnLoopback(second) + "\thandle_path /agent/* {\n\t\thermes_queue {\n\t\t\truns 2\n\t\t}\n\t\thermes_proxy " + p.Addr + "\n\t}\n}\n" +
		sidecar.OnLoopback(third) + "\thermes_queue {\n\t\truns 2\n\t}\n\thermes\n\treverse_proxy " + other.Addr + "\n}\n")
	at := func(listen, path string) *place {
		q := *p
		q.base = "http://" + listen + path
		return &q
	}
	p2, p3 := at(second, "/agent"), at(third, "")
	p.ask(chat, "key-1", "slow-1")
	p.Until(t, "slow-1")
	p2.ask(chat, "key-1", "slow-2")
	p.Until(t, "slow-2")
	q1 := p.ask(chat, "key-1", "waits-1")
	p.untilWaiting(1)
	q2 := p2.ask(chat, "key-2", "waits-2")
	q2.says("you are next") // for its client has nothing at either site
	p3.ask(chat, "key-1", "other").good(chat)
	p.End("slow-1")
	q2.good(chat)
	p.Release()
	q1.good(chat)
	if heard := p.Heard(); !slices.Equal(heard, []string{"slow-1", "slow-2", "waits-2", "waits-1"}) {
		t.Errorf("the agent has heard %q", heard)
	}
}
