package clients

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestOpenAIPythonRunsTheAgentOnce with a key: its connection is cut before the answer
// begins, and it sends its request again by itself.
func TestOpenAIPythonRunsTheAgentOnce(t *testing.T) {
	w := &workshop{t: t}
	site, err := w.installPython("openai.txt")
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	cut, rest := make(chan struct{}), make(chan struct{})
	asked := sync.OnceFunc(func() { close(cut) })
	up := upstream.New(t, func(x *upstream.Exchange) {
		asked()
		if x.Wait(rest) {
			x.Begin("Hello", " world")
			x.Finish()
		}
	})
	base, conns := cutting(t, up, func(_ []byte, first bool) bool { return first }, cut)
	go func() {
		<-conns // the second one
		close(rest)
	}()
	out := outputOf(t, exec.Command("python3", "-s", "-c", `
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="k")
stream = client.chat.completions.create(
    model="hermes-agent", stream=True, messages=[{"role": "user", "content": "hi"}],
    extra_headers={"Idempotency-Key": "one"},
)
print("".join(c.choices[0].delta.content or "" for c in stream if c.choices))
`, base), "PYTHONPATH="+site)
	if out != "Hello world" {
		t.Errorf("it read %q", out)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// TestFetchEventSourceReconnects by itself behind the last event that it has: its
// connection is cut in the middle of the stream.
func TestFetchEventSourceReconnects(t *testing.T) {
	w := &workshop{t: t}
	modules, err := w.installModules("node")
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("Hello", " wor")
		if x.Wait(rest) {
			x.Frame(hermes.Delta("content", "ld"))
			x.Finish()
		}
	})
	cut := make(chan struct{})
	base, conns := cutting(t, up, func(seen []byte, first bool) bool {
		if first && bytes.Contains(seen, []byte(" wor")) {
			close(cut)
			return true
		}
		return false
	}, cut)
	go func() {
		<-conns
		close(rest)
	}()
	out := outputOf(t, exec.Command("node", besideModules(t, modules, "node/resume.mjs"), base))
	if out != `{"text":"Hello world","errors":1}` {
		t.Errorf("it read %s", out)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// outputOf runs a client and returns what it prints.
func outputOf(t *testing.T, cmd *exec.Cmd, env ...string) string {
	t.Helper()
	cmd.Env = append(append(os.Environ(), "NO_PROXY=127.0.0.1"), env...)
	ctx, stop := context.WithTimeout(context.Background(), harness.Patience)
	defer stop()
	context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	var out, bad strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), bad.String())
	}
	return strings.TrimSpace(out.String())
}

// cutting starts a sidecar with hermes_resume, and in front of it what forwards
// connections and cuts the first one: when cut is closed, if may be agrees, which is asked
// with all that the client has been sent. It returns the base URL for clients, and a
// channel that gets a value for each further connection.
func cutting(t *testing.T, up *upstream.Server, may func(seen []byte, first bool) bool, cut <-chan struct{}) (base string, further <-chan struct{}) {
	t.Helper()
	side, _ := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	conns := make(chan struct{}, 100)
	all.Go(func() {
		for n := 0; ; n++ {
			down, err := l.Accept()
			if err != nil {
				return
			}
			if n > 0 {
				conns <- struct{}{}
			}
			first := n == 0
			all.Go(func() { forward(down, strings.TrimPrefix(side, "http://"), first, may, cut) })
		}
	})
	return "http://" + l.Addr().String() + "/v1", conns
}

// forward forwards a connection to the address, and cuts it if it is the first.
func forward(down net.Conn, to string, first bool, may func([]byte, bool) bool, cut <-chan struct{}) {
	defer down.Close()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(up, down)
		up.Close()
	}()
	go func() {
		defer close(done)
		var seen []byte
		b := make([]byte, 4096)
		for {
			n, err := up.Read(b)
			seen = append(seen, b[:n]...)
			if _, werr := down.Write(b[:n]); err != nil || werr != nil || n > 0 && first && may(seen, first) {
				return
			}
		}
	}()
	if first {
		select {
		case <-cut:
		case <-done:
		}
	} else {
		<-done
	}
}
