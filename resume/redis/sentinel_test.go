package redis

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// asked is a connection in memory to a server that answers commands with the name in one way, in
// parts of a size, and refuses others.
type asked struct {
	net.Conn
	name  string
	reply []byte
	part  int
	rest  []byte
}

func newAsked(name string, reply []byte, part int) *asked {
	c, _ := net.Pipe()
	return &asked{Conn: c, name: name, reply: reply, part: max(part, 1)}
}

func (c *asked) Write(p []byte) (int, error) {
	c.rest = []byte("-ERR unknown command\r\n")
	if bytes.Contains(bytes.ToLower(p), []byte(c.name)) {
		c.rest = c.reply
	}
	return len(p), nil
}

func (c *asked) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.part, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

// ask has the client of the options send a command to servers that answer in one way, and returns the
// addresses that it then connects to.
func askServers(name string, reply []byte, part int) (to []string, err error) {
	o := &Options{Timeout: 10 * time.Second, Logger: zap.NewNop(), Local: log.NewMemory()}
	o.Addrs = []string{"server-1:1", "server-2:1"}
	if name == "sentinel" {
		o.MasterName = "agents"
	}
	seen := make(chan string, 100)
	c := o.connectBy(func(_ context.Context, _, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "server-") {
			select {
			case seen <- address:
			default:
			}
			return nil, io.ErrClosedPipe
		}
		return newAsked(name, reply, part), nil
	})
	s := &Store{o: *o, client: c}
	err = s.ask(context.Background())
	_ = c.Close()
	close(seen)
	for address := range seen {
		to = append(to, address)
	}
	return to, err
}

// brokenMasters are what a Sentinel may answer that is no address.
var brokenMasters = map[string]string{
	"no value": array(), "one value": array(text("127.0.0.1")), "three values": array(text("127.0.0.1"), text("1"), text("2")),
	"no host": array(text(""), text("1")), "no port": array(text("127.0.0.1"), text("")), "the port zero": array(text("127.0.0.1"), text("0")),
	"a port too large": array(text("127.0.0.1"), text("65536")), "a port below zero": array(text("127.0.0.1"), text("-1")),
	"a port that is none": array(text("127.0.0.1"), text("x")), "a number as port": array(text("127.0.0.1"), ":6379\r\n"),
	"a nil host": array("$-1\r\n", text("1")), "a nil port": array(text("a"), "$-1\r\n"), "nested": array(array(text("a"), text("1"))),
	"arrays": array(array(text("a")), array(text("1"))), "an error within": array("-ERR a\r\n", text("1")),
	"a redirect": "-MOVED 1 127.0.0.1:1\r\n", "ask": "-ASK 1 127.0.0.1:1\r\n", "a push": ">2\r\n" + text("127.0.0.1") + text("1"),
	"an attribute": "|1\r\n+a\r\n+b\r\n" + array(text("127.0.0.1"), text("1")), "null": "_\r\n", "a set": "~2\r\n+a\r\n+1\r\n",
	"a message first": ">3\r\n" + text("message") + text("+switch-master") + text("agents") + array(text("127.0.0.1"), text("1")),
	"a message after": array(text("127.0.0.1"), text("1")) + array(text("message"), text("+switch-master"), text("agents")),
	"a big number":    "(3492890328409238509324850943850943825024385\r\n", "verbatim": "=5\r\ntxt:a\r\n", "streamed": "*?\r\n+a\r\n+1\r\n.\r\n",
}

// TestBrokenSentinels has all Sentinels answer in each broken way: nothing else is connected to, and
// the process goes on.
func TestBrokenSentinels(t *testing.T) {
	for _, replies := range []map[string]string{brokenMasters, brokenReplies} {
		for name, reply := range replies {
			to, err := askServers("sentinel", []byte(reply), 1<<20)
			if err == nil || len(to) > 0 && name != "a message after" {
				t.Errorf("%s: %v, connects to %v", name, err, to)
			}
			if isNil(err) {
				t.Errorf("%s: it is like no value", name)
			}
		}
	}
	good := array(text("127.0.0.1"), text("6379"))
	for _, part := range []int{1, 7, 1 << 20} {
		if to, err := askServers("sentinel", []byte(good), part); err == nil || len(to) == 0 || to[0] != "127.0.0.1:6379" {
			t.Errorf("in parts of %d: %v, connects to %v", part, err, to)
		}
	}
}

// brokenSlots are what a node of a cluster may answer that is no list of slots.
var brokenSlots = map[string]string{
	"no value": array(), "no range": array(array()), "half a range": array(array(":0\r\n")), "no nodes": array(array(":0\r\n", ":16383\r\n")),
	"a node without a port": array(array(":0\r\n", ":16383\r\n", array(text("127.0.0.1")))), "nil nodes": array(array(":0\r\n", ":16383\r\n", "*-1\r\n")),
	"a range that is none": array(array(":9\r\n", ":1\r\n", array(text("127.0.0.1"), ":1\r\n"))),
	"a range below zero":   array(array(":-9\r\n", ":-1\r\n", array(text("127.0.0.1"), ":1\r\n"))),
	"a range too large":    array(array(":0\r\n", ":9223372036854775807\r\n", array(text("127.0.0.1"), ":1\r\n"))),
	"texts":                array(array(text("a"), text("b"), array(text("127.0.0.1"), ":1\r\n"))),
	"no host":              array(array(":0\r\n", ":16383\r\n", array(text(""), ":1\r\n"))), "a nil host": array(array(":0\r\n", ":16383\r\n", array("$-1\r\n", ":1\r\n"))),
	"no port":      array(array(":0\r\n", ":16383\r\n", array(text("a"), "$-1\r\n"))),
	"metadata":     array(array(":0\r\n", ":16383\r\n", array(text("a"), ":1\r\n", text("id"), array(text("k"))))),
	"nil metadata": array(array(":0\r\n", ":16383\r\n", array(text("a"), ":1\r\n", text("id"), "*-1\r\n"))),
	"a redirect":   "-MOVED 1 127.0.0.1:1\r\n", "half a redirect": "-MOVED 1\r\n", "a redirect to nowhere": "-MOVED  \r\n", "ask": "-ASK 1 :\r\n",
	"overlapping": array(array(":0\r\n", ":9\r\n", array(text("a"), ":1\r\n")), array(":0\r\n", ":9\r\n", array(text("b"), ":1\r\n"))),
}

// TestBrokenNodes has all nodes of a cluster answer in each broken way: the process goes on.
func TestBrokenNodes(t *testing.T) {
	for _, replies := range []map[string]string{brokenSlots, brokenMasters, brokenReplies} {
		for name, reply := range replies {
			if _, err := askServers("slots", []byte(reply), 1<<20); isNil(err) {
				t.Errorf("%s: it is like no value", name)
			}
		}
	}
}

// TestHeapOfServers bounds what Sentinels and nodes take, whatever they say.
func TestHeapOfServers(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	for _, name := range []string{"sentinel", "slots"} {
		for what, reply := range brokenReplies {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = askServers(name, []byte(reply), 1<<20)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 20*mostOfReply { // two servers, each asked again
				t.Errorf("%s: %s: %d bytes of heap", name, what, n)
			}
		}
	}
}

// FuzzServers has Sentinels, and nodes of a cluster, answer with any bytes, in parts of any size: the
// process goes on, and a Sentinel's answer is an address however it is split.
func FuzzServers(f *testing.F) {
	for _, replies := range []map[string]string{brokenSlots, brokenMasters, brokenReplies} {
		for _, reply := range replies {
			f.Add([]byte(reply[:min(len(reply), 1000)]), 7)
		}
	}
	f.Add([]byte(array(text("127.0.0.1"), text("6379"))), 3)
	f.Fuzz(func(t *testing.T, reply []byte, part int) {
		for _, name := range []string{"sentinel", "slots"} {
			_, err := askServers(name, reply, part)
			if isNil(err) {
				t.Errorf("%s: it is like no value", name)
			}
		}
	})
}

// TestSentinelsOfWhichOneIsThere has the master found while others are down, or answer no address.
func TestSentinelsOfWhichOneIsThere(t *testing.T) {
	for name, other := range map[string]string{"down": "", "wrong": array()} {
		o := &Options{Timeout: patience, Logger: zap.NewNop(), UniversalOptions: goredis.UniversalOptions{
			Addrs: []string{"other-1:1", "good:1", "other-2:1"}, MasterName: "agents",
		}}
		master := "1"
		c := o.connectBy(func(_ context.Context, _, address string) (net.Conn, error) {
			switch {
			case address == "good:1":
				return newAsked("sentinel", []byte(array(text("127.0.0.1"), text(master))), 7), nil
			case other == "":
				return nil, io.ErrClosedPipe
			}
			return newAsked("sentinel", []byte(other), 7), nil
		}).(*watched)
		first, reign, err := c.find(context.Background())
		if err != nil || first != "127.0.0.1:1" {
			t.Errorf("%s: %q, %v", name, first, err)
		}
		if _, again, _ := c.find(context.Background()); again != reign || reign.Err() != nil {
			t.Errorf("%s: the master is another one", name)
		}
		_ = c.Close()
	}
}
