package queue

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// frugal has the binary's peak of memory be close to what it holds.
var frugal = []string{"GOGC=20", "GODEBUG=gcstoptheworld=1"}

// crowd has n clients of a place wait in line on connections of their own, each with a key that key
// returns and a body of so many bytes more. It returns the connections.
func (p *place) crowd(n, more int, key func(i int) string) []net.Conn {
	p.t.Helper()
	all := make([]net.Conn, 0, n)
	for i := range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			p.t.Skipf("only %d connections: %v", i, err)
		}
		p.t.Cleanup(func() { c.Close() })
		all = append(all, c)
		body := fmt.Sprintf(chat.body, hermes.ASCII("slow crowd "+strconv.Itoa(i)+strings.Repeat(" x", more/2)))
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", chat.path, key(i), len(body), body); err != nil {
			p.t.Fatal(err)
		}
	}
	return all
}

// cpu returns the processor time that the sidecar has taken.
func (p *place) cpu() time.Duration {
	p.t.Helper()
	stat := harness.ReadFile(p.t, filepath.Join("/proc", strconv.Itoa(p.caddy.Cmd.Process.Pid), "stat"))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	ticks := 0
	for _, f := range fields[11:13] { // of user and system
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident returns the memory of the sidecar now.
func (p *place) resident() int {
	kb, _ := strconv.Atoi(strings.TrimSuffix(p.caddy.Status("VmRSS"), " kB"))
	return kb << 10
}

// perWaiting bounds what one that waits takes of the process. Its connection takes most of it before
// it waits: 18 KB of stacks and 20 KB of heap are net/http's and Caddy's, as of any open request.
const perWaiting = 60 << 10

// TestThousandsWait: each of them takes bounded memory, and little time of a processor, whether or not the line
// moves. Each of them is told its place, and all get their answers.
func TestThousandsWait(t *testing.T) {
	sidecar.NeedsMemory(t)
	const n = 2000
	p := newPlaceOf(t, hermes.New(t, 0), site{queue: []string{"runs 8", "wait 1h", "waiting 20000"}}, frugal...)
	for i := range 8 {
		p.ask(chat, "holder", fmt.Sprintf("slow-%d", i))
		p.Until(t, fmt.Sprintf("slow-%d", i))
	}
	p.metric("waiting")
	before, limit := p.resident(), sidecar.LimitGrowth(t, p.caddy, n*perWaiting)
	all := p.crowd(n, 0, func(i int) string { return fmt.Sprintf("key-%d", i%(n/2)) })
	p.untilWaiting(n)
	for _, i := range []int{0, n / 2, n - 1} { // they are told
		b := make([]byte, 1)
		all[i].SetReadDeadline(time.Now().Add(harness.Patience))
		if _, err := all[i].Read(b); err != nil {
			t.Fatalf("the %dth is told nothing: %v", i, err)
		}
	}
	limit(fmt.Sprintf("%d that wait", n))
	t.Logf("now %d KiB more than before for each", (p.resident()-before)/n>>10)
	p.measure(t, "stands", func() {})
	p.measure(t, "moves", p.EndOne)
	limit("a line that moves")
	p.Release()
	for i, c := range all {
		c.SetReadDeadline(time.Now().Add(harness.Patience))
		answer := new(strings.Builder)
		b := make([]byte, 4096)
		for !strings.Contains(answer.String(), "data: [DONE]") {
			got, err := c.Read(b)
			answer.Write(b[:got])
			if err != nil {
				t.Fatalf("%d: %v after %q", i, err, harness.Clip(answer.String()))
			}
		}
		c.Close()
	}
	limit("all that were served")
	if p.MostAtOnce() > 8 {
		t.Errorf("%d at once", p.MostAtOnce())
	}
	harness.Until(t, "all places are free", func() bool { return p.metric("running") <= 0 && p.metric("waiting") <= 0 })
}

// measure says how much of a processor the sidecar takes while two seconds pass. It must not be one.
func (p *place) measure(t *testing.T, what string, each func()) {
	t.Helper()
	began, before := time.Now(), p.cpu()
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		each()
	}
	wall, cpu := time.Since(began), p.cpu()-before
	t.Logf("a line that %s: %v of a processor in %v", what, cpu, wall)
	if cpu > wall*3/4 {
		t.Errorf("a line that %s takes %v of a processor in %v", what, cpu, wall)
	}
}

// TestLargeBodiesWait: what waits holds its body, so the room in line and max_request bound the memory;
// large ones take no multiple of their size.
func TestLargeBodiesWait(t *testing.T) {
	sidecar.NeedsMemory(t)
	const n, size = 100, 1 << 20
	p := newPlaceOf(t, hermes.New(t, 0), site{queue: []string{"runs 1", "wait 1h"}}, frugal...)
	p.ask(chat, "holder", "slow-1")
	p.Until(t, "slow-1")
	limit := sidecar.LimitGrowth(t, p.caddy, 3*n*size)
	p.crowd(n, size, func(i int) string { return "key-" + strconv.Itoa(i%10) })
	p.untilWaiting(n)
	limit(fmt.Sprintf("%d bodies of %d bytes", n, size))
}
