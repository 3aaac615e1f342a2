package resume

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// relay is the network between a client and a site. Its connections break after as many bytes as most
// says, if it is set.
type relay struct {
	*harness.Listener
	most func() int64

	mu   sync.Mutex
	to   string // the address of the site
	open []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	l := &relay{to: to}
	l.Listener = harness.Listen(t, l.serve)
	return l
}

// badRoad is a relay whose connections break after a random number of bytes, but not after less than the
// least.
func badRoad(t *testing.T, to string, seed uint64, least int64) *relay {
	random := rand.New(rand.NewPCG(seed, 7))
	l := newRelay(t, to)
	l.most = func() int64 { return least + random.Int64N(5<<10) } // the largest event and a header take 4 KiB
	return l
}

// move has connections go to another address from now on, and cuts the others.
func (l *relay) move(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

func (l *relay) serve(_ context.Context, c net.Conn) {
	l.mu.Lock()
	site, err := net.Dial("tcp", l.to)
	most := int64(math.MaxInt64)
	if l.most != nil {
		most = l.most()
	}
	if err == nil {
		l.open = append(l.open, c, site)
	}
	l.mu.Unlock()
	if err != nil {
		return
	}
	defer site.Close()
	go func() {
		_, _ = io.Copy(site, c)
		_ = site.Close()
	}()
	_, _ = io.CopyN(c, site, most)
}

// near starts a sidecar beside the client, for a distant site.
func near(t *testing.T, site string, flags ...string) (*client.Client, *sidecar.Process) {
	listen := harness.FreePort(t)
	s := sidecar.Launch(t, sidecar.Environment(t.TempDir()), "hermes proxying",
		append([]string{"hermes-proxy", "--resume", "--from", "http://" + listen, "--to", site}, flags...)...)
	return client.New(t, "http://"+listen), s
}

var (
	comments, blank = regexp.MustCompile(`(?m)^:.*\n`), regexp.MustCompile(`\n\n+`)
	outputID        = regexp.MustCompile(`(?m)^(event: hermes\.card\ndata: .*\n)id: .*\n`)
)

// throughTwo returns a stream without what two sidecars may change of it: comments, blank lines, and the id of the
// output of a card, which the second one writes with the end of its tool.
func throughTwo(stream string) string {
	return blank.ReplaceAllString(outputID.ReplaceAllString(comments.ReplaceAllString(stream, ""), "$1"), "\n\n")
}

// TestBadRoadToADistantSite has connections break at random places between two sidecars. The
// client sees each recording as without that, and upstream is asked once.
func TestBadRoadToADistantSite(t *testing.T) {
	recordings := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && len(r.Body) < 8<<10 })
	up := upstream.New(t, upstream.Library(recordings, upstream.ByFrame).Play)
	base, _ := run(t, up, "", "hermes_resume\n\thermes {\n\t\tkeepalive off\n\t\tparallel_window 1h\n\t}")
	direct := client.New(t, base)
	road := badRoad(t, strings.TrimPrefix(base, "http://"), 1, 200).Addr
	c, _ := near(t, road, "--change-host-header", "--keepalive", "off", "--parallel-window", "1h", "--zero-usage", "pass")
	var all sync.WaitGroup
	room := make(chan struct{}, 8) // at once: they wait before they connect again
	for i, r := range recordings {
		if i%3 != 0 && testing.Short() {
			continue
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			name := r.String()
			through, err1 := c.Try("/v1/chat/completions", "X-Play", name, key, name)
			straight, err2 := direct.Try("/v1/chat/completions", "X-Play", name, key, name, "Host", road)
			if err := errors.Join(err1, err2); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if got, want := throughTwo(through.All()), throughTwo(straight.All()); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
		})
	}
	all.Wait()
	asked := map[string]int{}
	for _, r := range up.Requests() {
		asked[r.Header.Get("X-Play")]++
	}
	for name, n := range asked {
		if n != 1 {
			t.Errorf("%s: upstream was asked %d times", name, n)
		}
	}
}

// TestSiteThatIsGone has the stream end with an error finish, of which the log says so once.
func TestSiteThatIsGone(t *testing.T) {
	up := upstream.New(t, held(nil))
	base, site := run(t, up, "", "hermes_resume\n\thermes {\n\t\tdrain_timeout 1ms\n\t}")
	listen := harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), beside(listen, base, "transport hermes_resume {\nresume_for 1s\n}"))
	r := client.New(t, "http://"+listen).Chat()
	frame(t, r)
	site.Kill()
	if rest := r.All(); !strings.Contains(rest, `"finish_reason":"error"`) || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the rest is\n%s", rest)
	}
	if !s.Await("stream ended in an error") {
		t.Fatalf("the log is\n%s", s.Log)
	}
	for _, e := range s.Log.Entries() {
		if level := e["level"]; e["msg"] != "stream ended in an error" && (level == "warn" || level == "error") {
			t.Errorf("another line is %v", e)
		}
	}
}
