package redis

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
)

// many is more than a stack has room for, or the memory of a test, if it is believed.
const many = 4 << 20

// brokenReplies are what a server may send that is broken, wrong or hostile.
var brokenReplies = map[string]string{
	"a huge array":             "*2147483647\r\n",
	"the largest array":        "*9223372036854775807\r\n",
	"a huge string":            "$2147483647\r\n",
	"the largest string":       "$9223372036854775807\r\n",
	"a string below nil":       "$-2\r\n",
	"a huge map":               "%2147483647\r\n",
	"a huge array in others":   "*1\r\n*2\r\n$1\r\na\r\n*2147483647\r\n",
	"a huge string in others":  "*1\r\n*2\r\n$1\r\na\r\n$2147483647\r\n",
	"arrays in arrays":         strings.Repeat("*1\r\n", many),
	"pushes in a row":          strings.Repeat(">1\r\n+a\r\n", many),
	"a large array, all of it": "*4194304\r\n" + strings.Repeat(":1\r\n", many),
	"a large string":           "$16777216\r\n" + strings.Repeat("x", 4*many) + "\r\n",
	"a line without an end":    "+" + strings.Repeat("x", 4*many),
	"HTTP":                     "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	"an empty line":            "\r\n",
	"lines of another system":  "+OK\n",
	"half a string":            "$10\r\nabc",
	"half an array":            "*2\r\n$1\r\na\r\n",
	"a string that goes on":    "$1\r\nabc\r\n",
	"an error":                 "-ERR no\r\n",
	"a wrong type":             "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
	"it loads":                 "-LOADING Redis is loading the dataset in memory\r\n",
	"no such script":           "-NOSCRIPT No matching script.\r\n",
	"no string":                "$-1\r\n",
	"no array":                 "*-1\r\n",
	"a number":                 ":1\r\n",
	"a number that is none":    ":x\r\n",
	"a string":                 "$3\r\nabc\r\n",
	"an empty array":           "*0\r\n",
	"a map":                    "%0\r\n",
	"null":                     "_\r\n",
	"an array of arrays":       "*9\r\n" + strings.Repeat("*1\r\n*0\r\n", 9),
	"two replies":              ":1\r\n:1\r\n",
	"nothing":                  "",
}

// array and text are values of RESP.
func array(values ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(values), strings.Join(values, ""))
}

func text(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// answering returns a store at a server that answers whatever comes with the same bytes.
func answering(t *testing.T, reply string, set func(*Options)) (*Store, *observer.ObservedLogs) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				for command := make([]byte, 64<<10); ; {
					if _, err := c.Read(command); err != nil {
						return
					}
					_, _ = io.WriteString(c, reply)
				}
			}()
		}
	}()
	return (&server{t: t, at: Storage{Address: l.Addr().String()}}).replica(func(o *Options) {
		o.Lease, o.Timeout = time.Second, 200*time.Millisecond
		set(o)
	})
}

// TestBrokenReplies has a server answer in each broken way: callers get an error, and wait no longer
// than for a server that is silent.
func TestBrokenReplies(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for name, reply := range brokenReplies {
		s, _ := answering(t, reply, func(*Options) {})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			e := entry("")
			_, w, claims := s.Claim(ctx, e, newRun().callbacks())
			_, finds := s.Find(ctx, e.ID)
			r := s.Read(ctx, e.ID, 1)
			defer r.Close()
			if _, _, reads := start(r); w != nil || claims == nil || finds == nil || reads == nil {
				t.Errorf("%s: %v, %v, %v", name, claims, finds, reads)
			}
			_ = s.Delete(ctx, e.ID)
		})
	}
	wg.Wait()
}

// replyTo has go-redis read the reply as each kind of answer that a Store asks for, and at the
// beginning of a connection. It returns how many bytes of heap that allocates at most, and
// what comes out, "" for an error.
func replyTo(t *testing.T, reply []byte, part int) (allocated uint64, got []string) {
	t.Helper()
	for _, as := range []struct {
		name    string
		command func(context.Context, *goredis.Client) (any, error)
	}{
		{"hello", func(ctx context.Context, c *goredis.Client) (any, error) { return c.Ping(ctx).Result() }},
		{"evalsha", func(ctx context.Context, c *goredis.Client) (any, error) { return c.EvalSha(ctx, "0", nil).Result() }},
		{"xread", func(ctx context.Context, c *goredis.Client) (any, error) {
			return c.XRead(ctx, &goredis.XReadArgs{Streams: []string{"a", "0"}}).Result()
		}},
	} {
		c := goredis.NewClient(&goredis.Options{
			Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				return checked(newAsked(as.name, reply, part)), nil
			},
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := as.command(context.Background(), c)
		runtime.ReadMemStats(&after)
		_ = c.Close()
		allocated = max(allocated, after.TotalAlloc-before.TotalAlloc)
		if got = append(got, ""); err == nil {
			got[len(got)-1] = fmt.Sprintf("%#v", v)
		}
	}
	return allocated, got
}

// mostOfReply is how many bytes of heap a reply may take: its bytes, the values of go-redis around
// them, the text of errors, and the buffers of a connection.
const mostOfReply = 2*maxReply + maxValues*16 + 512<<10

// TestHeapOfReplies bounds what a reply takes, whatever it says of itself.
func TestHeapOfReplies(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	for name, reply := range brokenReplies {
		n, _ := replyTo(t, []byte(reply), 1<<20)
		if n > mostOfReply {
			t.Errorf("%s: %d bytes of heap", name, n)
		}
	}
}

// TestRepliesOfRedis lets through what Redis answers, at the size of the bounds.
func TestRepliesOfRedis(t *testing.T) {
	message := array(text("1-1"), array(text("p"), text(strings.Repeat("\n", maxPiece))))
	messages := fmt.Sprintf("*%d\r\n%s", maxEntries, strings.Repeat(message, maxEntries))
	for name, reply := range map[string]string{
		"pieces":        messages,
		"what has come": array(array(text("test:events:1"), messages)),
		"what is known": text(strings.Repeat("x", 2*maxRecord)),
		"nil":           "$-1\r\n", "no array": "*-1\r\n", "an empty string": "$0\r\n\r\n", "an empty array": "*0\r\n", "an error": "-ERR no\r\n",
	} {
		for _, part := range []int{1, 2, 3, 1000, 1 << 20} {
			c := checked(newAsked("", []byte(reply), part))
			for range 2 { // commands
				_, _ = c.Write(nil)
				if got, err := io.ReadAll(c); err != nil || string(got) != reply {
					t.Errorf("%s in parts of %d: %v, %d bytes, want %d", name, part, err, len(got), len(reply))
				}
			}
		}
	}
}

// FuzzReplies has a server answer with any bytes, in parts of any size: the process goes on,
// with a bounded heap, and what is a reply stays one however it is split.
func FuzzReplies(f *testing.F) {
	for _, reply := range brokenReplies {
		f.Add([]byte(reply[:min(len(reply), 1000)]), 7)
	}
	f.Add([]byte(array(array(text("a"), array(array(text("1-1"), array(text("d"), text("b"))))))), 3)
	f.Fuzz(func(t *testing.T, reply []byte, part int) {
		n, got := replyTo(t, reply, max(part, 1))
		for try := 0; n > mostOfReply && try < 10; try++ { // other tests leave goroutines behind
			again, _ := replyTo(t, reply, max(part, 1))
			n = min(n, again)
		}
		if n > mostOfReply {
			t.Errorf("%d bytes of heap", n)
		}
		_, whole := replyTo(t, reply, maxReply)
		for i, want := range whole { // what is after a reply may fail it, if it comes with that
			if want != "" && got[i] != want {
				t.Errorf("in parts of %d it is %q, want %q", part, got[i], want)
			}
		}
	})
}
