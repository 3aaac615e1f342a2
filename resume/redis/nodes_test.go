package redis

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// freePort returns a port of this host that nothing listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startNode starts a server at a port, which keeps nothing on disk. Without a password it needs none.
func startNode(t *testing.T, password string, args ...string) *server {
	t.Helper()
	path, port := program(t), freePort(t)
	s := &server{t: t, addr: "127.0.0.1:" + port, password: password}
	s.args = append(args, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir(),
		"--requirepass", password, "--masterauth", password)
	s.start(path)
	t.Cleanup(s.kill)
	return s
}

// port returns the port of a node.
func (s *server) port() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return port
}

// text returns what the server replies to a command.
func (s *server) text(command ...any) string {
	s.t.Helper()
	text, err := s.client.Do(context.Background(), command...).Text()
	if err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
	return text
}

// startCluster starts six nodes: three masters, and then a replica of each. Replicas know the
// first two. No node takes the place of another by itself.
func startCluster(t *testing.T) []*server {
	t.Helper()
	var nodes []*server
	var buses []string
	for range 6 {
		buses = append(buses, freePort(t))
		nodes = append(nodes, startNode(t, "", "--cluster-enabled", "yes", "--cluster-port", buses[len(buses)-1],
			"--cluster-node-timeout", fmt.Sprint(patience.Milliseconds())))
	}
	for i, n := range nodes {
		n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < 3 {
			n.do("CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		}
		if i > 0 {
			n.do("CLUSTER", "MEET", "127.0.0.1", nodes[0].port(), buses[0])
		}
		n.at.Address = nodes[0].addr + " " + nodes[1].addr
	}
	for _, n := range nodes {
		until(t, "all nodes know each other", func() bool {
			return strings.Count(n.text("CLUSTER", "NODES"), " connected") == len(nodes) &&
				strings.Contains(n.text("CLUSTER", "INFO"), "cluster_state:ok")
		})
	}
	for i, n := range nodes[3:] {
		n.do("CLUSTER", "REPLICATE", nodes[i].text("CLUSTER", "MYID"))
	}
	for i, n := range nodes[3:] {
		n.isSynced()
		for _, other := range nodes {
			until(t, "they know who is a replica", func() bool {
				return strings.Count(other.text("CLUSTER", "NODES"), "slave "+nodes[i].text("CLUSTER", "MYID")) == 1
			})
		}
	}
	return nodes
}

// isSynced waits until a replica has what its master has.
func (s *server) isSynced() {
	s.t.Helper()
	until(s.t, "a replica is synced", func() bool {
		return strings.Contains(s.text("INFO", "replication"), "master_link_status:up")
	})
}

// userOfPage returns the password and the rights that docs/resume-redis.md gives a user.
func userOfPage(t *testing.T, name string) (password string, rights []string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^    user ` + name + ` on >(\S+) (.*)$`).FindStringSubmatch(page(t))
	if line == nil {
		t.Fatalf("docs/resume-redis.md has no line of the user %s", name)
	}
	return line[1], strings.Fields(line[2])
}

// page returns docs/resume-redis.md.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/resume-redis.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// allow gives replicas a user with rights, and a prefix that these are for.
func (s *server) allow(name, password string, rights []string) {
	s.t.Helper()
	command := []any{"ACL", "SETUSER", name, "on", ">" + password}
	for _, right := range rights {
		command = append(command, right)
	}
	s.do(command...)
	s.at.Username, s.at.Password, s.at.Prefix = name, password, name+":"
}

// refusesNothing checks that no user has lacked a right.
func (s *server) refusesNothing() {
	s.t.Helper()
	refused, err := s.client.Do(context.Background(), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		s.t.Errorf("it refuses %v, %v", refused, err)
	}
}

// startWatched starts a master, a replica of it, and a Sentinel that both are known to, but that
// declares nothing down by itself. Its user has the rights that docs/resume-redis.md gives. All passwords begin
// with "the-password".
func startWatched(t *testing.T) (master, replica, sentinel *server) {
	t.Helper()
	const password, ofData = "the-password-of-the-sentinel", "the-password-of-redis"
	master, replica = startNode(t, ofData), startNode(t, ofData)
	replica.do("REPLICAOF", "127.0.0.1", master.port())
	replica.isSynced()
	port, dir := freePort(t), t.TempDir()
	_, rights := userOfPage(t, "sidecar")
	config := fmt.Sprintf("sentinel monitor agents 127.0.0.1 %s 1\nsentinel down-after-milliseconds agents %d\nsentinel auth-pass agents %s\n"+
		"requirepass %s\nuser sidecar on >%[4]s %s\n",
		master.port(), patience.Milliseconds(), ofData, password, strings.Join(rights, " "))
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel = &server{t: t, addr: "127.0.0.1:" + port, password: password}
	sentinel.args = []string{file, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", dir}
	sentinel.start(program(t))
	t.Cleanup(sentinel.kill)
	t.Cleanup(sentinel.refusesNothing)
	until(t, "the Sentinel knows the replica", func() bool {
		replicas, err := sentinel.client.Do(context.Background(), "SENTINEL", "REPLICAS", "agents").Slice()
		return err == nil && strings.Contains(fmt.Sprint(replicas), replica.port()) && !strings.Contains(fmt.Sprint(replicas), "disconnected")
	})
	for _, s := range []*server{master, replica} {
		s.at = Storage{
			Address: sentinel.addr, MasterName: "agents", Password: ofData, SentinelUsername: "sidecar", SentinelPassword: password,
		}
	}
	return master, replica, sentinel
}

// promote has the Sentinel make another server the master.
func (s *server) promote(to *server) {
	s.t.Helper()
	until(s.t, "the Sentinel agrees", func() bool {
		return s.client.Do(context.Background(), "SENTINEL", "FAILOVER", "agents").Err() == nil
	})
	until(s.t, "the Sentinel names the other server", func() bool {
		addr, err := s.client.Do(context.Background(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "agents").StringSlice()
		return err == nil && addr[1] == to.port()
	})
}

// keepsTheContract has two replicas do what package resume expects, each time with a prefix of its own.
func (s *server) keepsTheContract(t *testing.T) {
	n := 0
	for what, test := range contract {
		t.Run(what, func(t *testing.T) {
			n++
			own := func(o *Options) { o.Prefix += fmt.Sprintf("%d:", n) }
			here, _ := s.replica(own)
			there, logs := s.replica(own)
			test(t, pair{here, there})
			if logs.Len() > 0 {
				t.Errorf("it logs %v", logs.All()[0])
			}
		})
	}
}

// TestContractOfACluster has the user of docs/resume-redis.md, with the right that the page adds, use a cluster.
func TestContractOfACluster(t *testing.T) {
	t.Parallel()
	const more = "+cluster|slots"
	if !strings.Contains(page(t), "`"+more+"`") {
		t.Fatalf("docs/resume-redis.md does not add the right %s", more)
	}
	password, rights := userOfPage(t, "hermes")
	nodes := startCluster(t)
	for _, n := range nodes {
		n.allow("hermes", password, append(rights, more))
	}
	nodes[0].keepsTheContract(t)
	for _, n := range nodes {
		n.refusesNothing()
	}
}

// TestContractOfAWatchedMaster has replicas find it by a Sentinel.
func TestContractOfAWatchedMaster(t *testing.T) {
	t.Parallel()
	master, _, _ := startWatched(t)
	master.keepsTheContract(t)
}

// TestClusterIsUsed has the logs of many keys be at all masters.
func TestClusterIsUsed(t *testing.T) {
	nodes := startCluster(t)
	s, _ := nodes[0].replica(nil)
	for n := range 30 {
		l := begun(t, s, entry(fmt.Sprint(n)), newRun())
		add(t, l, event(1))
		l.End(log.Whole)
	}
	for i, n := range nodes[:3] {
		if keys := n.keys(); len(keys) < 9 {
			t.Errorf("the master %d has %v", i, keys)
		}
	}
}

// TestNodeIsDown has a cluster without one of its masters go on with the others. It is down when no
// master answers.
func TestNodeIsDown(t *testing.T) {
	nodes := startCluster(t)
	s, _ := nodes[0].replica(func(o *Options) {
		o.Timeout = 10 * time.Second
		// One that lives: after a search in which no node answers in time, go-redis knows only
		// these (osscluster.go:1817).
		o.Addrs = append(o.Addrs, nodes[3].addr)
	})
	nodes[0].kill()
	claims := func() (yes, no int) {
		for range 30 {
			_, w, err := s.Claim(context.Background(), entry(""), newRun().callbacks())
			if err != nil {
				no++
				continue
			}
			yes++
			w.End(log.Dropped)
		}
		return yes, no
	}
	if yes, no := claims(); yes < 9 || no == 0 || s.down.Load() {
		t.Errorf("%d are claimed, %d not; down: %v", yes, no, s.down.Load())
	}
	nodes[1].kill()
	nodes[2].kill()
	until(t, "it is down", s.down.Load)
	if yes, _ := claims(); yes > 0 {
		t.Errorf("%d are claimed", yes)
	}
	nodes[3].do("CLUSTER", "FAILOVER", "TAKEOVER")
	until(t, "it is back", func() bool { return !s.down.Load() })
	until(t, "streams are kept", func() bool { yes, _ := claims(); return yes > 0 })
}

// TestFailoverInAStream kills the server that has a stream, in the middle of it, and has another
// one take its place: readers elsewhere get all that comes, before and after, and the key is
// known.
func TestFailoverInAStream(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (s *server, failover func(id string)){
		"cluster": func(t *testing.T) (*server, func(id string)) {
			nodes := startCluster(t)
			return nodes[0], func(id string) {
				for i, n := range nodes[:3] {
					if n.client.Exists(context.Background(), "test:log:{"+log.Place(id)+"}:"+id).Val() == 1 {
						n.kill()
						nodes[i+3].do("CLUSTER", "FAILOVER", "TAKEOVER")
						return
					}
				}
				t.Fatal("no node has the log")
			}
		},
		"sentinel": func(t *testing.T) (*server, func(id string)) {
			master, replica, sentinel := startWatched(t)
			return master, func(string) {
				master.kill()
				sentinel.promote(replica)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, failover := start(t)
			here, logs := server.replica(nil)
			there, _ := server.replica(nil)
			l := begun(t, here, entry("a"), newRun())
			add(t, l, event(1))
			inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
			r := follow(t, there, l.ID)
			if got := read(t, r, len(event(1))); got != event(1) {
				t.Fatal(got)
			}
			add(t, l, event(2))
			failover(l.ID)
			add(t, l, event(3))
			if got := read(t, r, len(event(2)+event(3))); got != event(2)+event(3) {
				t.Errorf("after that it has %q", got)
			}
			wantKey(t, there, "a", l.Entry)
			add(t, l, event(4))
			l.End(log.Whole)
			wantRest(t, r, event(4), io.EOF)
			wantRest(t, follow(t, there, l.ID), event(1)+event(2)+event(3)+event(4), io.EOF)
			if n := logs.FilterMessageSnippet("continues on this replica").Len(); n != 0 {
				t.Errorf("the log is lost: %v", logs.All())
			}
			for _, line := range logs.All() {
				if strings.Contains(fmt.Sprint(line), "the-password") {
					t.Errorf("the password is in a log: %v", line)
				}
			}
		})
	}
}
