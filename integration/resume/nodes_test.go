package resume

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// startNode starts one of several servers, which keeps nothing on disk. They have the password of
// each other. It listens when its log says the text.
func startNode(t *testing.T, says string, args ...string) *redis {
	t.Helper()
	r := &redis{path: harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server"), addr: harness.FreePort(t)}
	r.process = harness.Start(t, exec.Command(r.path, append(args,
		"--port", harness.Port(r.addr), "--bind", "127.0.0.1", "--dir", t.TempDir())...))
	if !r.process.Await(says) {
		t.Fatalf("redis does not start:\n%s", r.process.Log)
	}
	return r
}

// dataNode starts one that has streams.
func dataNode(t *testing.T, args ...string) *redis {
	t.Helper()
	return startNode(t, "Ready to accept connections",
		append(args, "--save", "", "--requirepass", password, "--masterauth", password)...)
}

// do returns what the server replies to a command, "" if it is away.
func (r *redis) do(command ...string) string {
	c, err := net.DialTimeout("tcp", r.addr, time.Minute)
	if err != nil {
		return ""
	}
	defer c.Close()
	in := bufio.NewReader(c)
	if _, err := fmt.Fprintf(c, "AUTH %s\r\n%s\r\n", password, strings.Join(command, " ")); err != nil {
		return ""
	}
	_, _ = in.ReadString('\n')
	return reply(in)
}

// reply reads a reply.
func reply(in *bufio.Reader) string {
	line, _ := in.ReadString('\n')
	line = strings.TrimSpace(line)
	n, err := strconv.Atoi(strings.TrimLeft(line, "$*"))
	var b strings.Builder
	switch {
	case err == nil && line[0] == '$':
		_, _ = io.CopyN(&b, in, int64(n)+2)
	case err == nil && line[0] == '*':
		for range n {
			b.WriteString(reply(in))
		}
	default:
		return line
	}
	return b.String()
}

// TestReplicasOfACluster has replicas share streams in a Redis Cluster, which has them at all of its
// nodes.
func TestReplicasOfACluster(t *testing.T) {
	var nodes []*redis
	var buses []string
	for range 3 {
		buses = append(buses, harness.Port(harness.FreePort(t)))
		nodes = append(nodes, dataNode(t, "--cluster-enabled", "yes", "--cluster-port", buses[len(buses)-1],
			"--cluster-node-timeout", fmt.Sprint(harness.Patience.Milliseconds())))
	}
	for i, n := range nodes {
		n.do("CLUSTER SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		n.do("CLUSTER ADDSLOTSRANGE", fmt.Sprint(i*16384/3), fmt.Sprint((i+1)*16384/3-1))
		n.do("CLUSTER MEET 127.0.0.1", harness.Port(nodes[0].addr), buses[0])
	}
	for _, n := range nodes {
		harness.Until(t, "the cluster is whole", func() bool {
			return strings.Contains(n.do("CLUSTER INFO"), "cluster_state:ok") && strings.Count(n.do("CLUSTER NODES"), " connected") == 3
		})
	}
	up := upstream.New(t, upstream.Chat(hermes.Says("hi"), hermes.Says("there")))
	all, _ := (&redis{addr: nodes[0].addr + " " + nodes[1].addr}).replicas(t, up, 2)
	const keys = 30
	for n := range keys {
		first := ask(all[n%2], fmt.Sprint(n))
		whole := first.All()
		again := ask(all[1-n%2], fmt.Sprint(n))
		if got := again.All(); got != whole || again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(whole, "[DONE]") {
			t.Fatalf("at the other replica it is %q, %v, want %q", got, again.Header, whole)
		}
		if status := remove(all[1-n%2], first.Header.Get(stream), credential); n%3 == 0 && status != 204 {
			t.Errorf("it is ended with %d", status)
		}
	}
	if n := len(up.Requests()); n != keys {
		t.Errorf("upstream was asked %d times, want %d", n, keys)
	}
	for i, n := range nodes {
		if keys := n.do("DBSIZE"); keys == ":0" {
			t.Errorf("the node %d has nothing", i)
		}
	}
}

// TestMasterIsKilled in the middle of a stream, and its replica takes its place, as a Sentinel says:
// no client of any replica notices.
func TestMasterIsKilled(t *testing.T) {
	master := dataNode(t)
	heir := dataNode(t, "--replicaof", "127.0.0.1 "+harness.Port(master.addr))
	harness.Until(t, "the replica is synced", func() bool {
		return strings.Contains(heir.do("INFO replication"), "master_link_status:up")
	})
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	harness.WriteFile(t, file, fmt.Appendf(nil, "sentinel monitor agents 127.0.0.1 %s 1\nsentinel down-after-milliseconds agents %d\nsentinel auth-pass agents %s\n",
		harness.Port(master.addr), harness.Patience.Milliseconds(), password))
	sentinel := startNode(t, "+monitor", file, "--sentinel")
	harness.Until(t, "the Sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.do("SENTINEL REPLICAS agents"), "master-link-status\r\nok")
	})

	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("hi", "there")
		if x.Wait(rest) {
			x.Finish()
		}
	})
	all, processes := (&redis{addr: sentinel.addr, options: "master_name agents\n\t\t\ttimeout 30s"}).replicas(t, up, 2)
	first := ask(all[0], "one")
	other := ask(all[1], "one")
	var begun []string
	for range 3 {
		begun = append(begun, frame(t, first))
	}
	for _, want := range begun {
		if got := frame(t, other); got != want {
			t.Fatalf("at the other replica it begins with %q, want %q", got, want)
		}
	}
	master.process.Kill()
	harness.Until(t, "the Sentinel agrees", func() bool { return sentinel.do("SENTINEL FAILOVER agents") == "+OK" })
	harness.Until(t, "the replica is the master", func() bool { return strings.Contains(heir.do("ROLE"), "master") })
	again := make(chan string)
	go func() { // before the replicas know of the new master
		r := ask(all[1], "one")
		again <- r.Header.Get("Idempotency-Replayed") + r.All()
	}()
	close(rest)
	tail := first.All()
	whole := strings.Join(slices.Concat(begun, []string{tail}), "")
	if got := other.All(); got != tail || !strings.Contains(tail, "[DONE]") || strings.Contains(tail, "error") {
		t.Errorf("the rest is %q, and %q at the other replica", tail, got)
	}
	if got := <-again; got != "true"+whole {
		t.Errorf("who asks meanwhile has %q, want %q", got, whole)
	}
	if got := ask(all[1], "one").All(); got != whole {
		t.Errorf("at the other replica it is %q then, want %q", got, whole)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
	for _, p := range processes {
		if strings.Contains(p.Log.String(), "continues on this replica") {
			t.Error("a stream is lost")
		}
	}
}
