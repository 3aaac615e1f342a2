package redis

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// A fake is a server that answers as Redis does as far as a Store needs it, with one log of
// another replica. It answers one kind of command, its point, with other bytes.
type fake struct {
	addr  string
	point string
	reply []byte // none: it is silent
	ends  bool   // the connection, after the reply
}

// points are the kinds of commands.
var points = map[string]string{
	"hello": "hello", "auth": "hello", "xread": "xread", "zrem": "zrem", "time": "time",
	claimScript.Hash(): "claim", lookScript.Hash(): "look", writeScript.Hash(): "write", deleteScript.Hash(): "delete",
}

// theirs is the log of another replica.
var theirs = entry("theirs")

// start has the fake listen.
func (f *fake) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
}

// serve answers the commands of a connection.
func (f *fake) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		point := points[strings.ToLower(command[0])]
		if point == "" && len(command) > 1 { // EVALSHA, or EVAL of one that is not known
			point = points[command[1]]
			if point == "" {
				point = points[goredis.NewScript(command[1]).Hash()]
			}
		}
		reply := f.reply
		if point != f.point {
			reply = []byte(canned(point, command))
		}
		if _, err := c.Write(reply); err != nil || point == f.point && f.ends {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		command[i] = string(b[:size])
	}
	return command, nil
}

// array and text are values of RESP.
func array(values ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(values), strings.Join(values, ""))
}

func text(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// canned is what a server would answer.
func canned(point string, command []string) string {
	switch point {
	case "hello":
		return array(text("server"), text("fake"), text("modules"), array())
	case "claim":
		return text(command[7])
	case "look":
		return looked(theirs, "begun", `{"Content-Type":["text/event-stream"]}`)
	case "xread":
		if command[len(command)-1] == "1-2" {
			time.Sleep(10 * time.Millisecond) // or a reader turns without a pause
			return "*-1\r\n"
		}
		return array(array(text("test:events"), array(
			array(text("0-1"), array(text("h"), text(""))), array(text("1-2"), array(text("e"), text(event(1)))))))
	case "write":
		return array(":0\r\n", ":1\r\n")
	case "time":
		return array(text("1"), text("1"))
	}
	return ":1\r\n"
}

// looked is what lookScript returns of a log with one event.
func looked(e resume.Entry, state, header string) string {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return array(text(state), text(header), ":2\r\n", ":1\r\n", ":100000\r\n", ":0\r\n", ":0\r\n", text(string(b)))
}

// replica returns a store at the fake, and what it logs.
func (f *fake) replica(t *testing.T, set func(*Options)) (*Store, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	o := Options{
		Network: "tcp", Address: f.addr, Prefix: "test:",
		Lease: time.Second, Timeout: time.Second, Local: resume.NewMemory(), Logger: zap.New(core),
	}
	if set != nil {
		set(&o)
	}
	s := New(o)
	t.Cleanup(func() { s.Destruct() })
	return s, logs
}
