package demo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// pageOf runs the command until it names its page, and returns its address
// and a function that interrupts the command and returns all that it printed.
func pageOf(t *testing.T, c command) (addr string, end func() string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	out := &watched{want: "in a browser: ", seen: make(chan struct{})}
	ended := make(chan error, 1)
	c.out = out
	go func() { ended <- c.run(ctx) }()
	select {
	case <-out.seen:
	case err := <-ended:
		t.Fatalf("ended: %v in\n%s", err, out)
	}
	m := regexp.MustCompile(`in a browser: http://(\S+)/\n`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("no page in\n%s", out)
	}
	return m[1], func() string {
		interrupt()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		return out.String()
	}
}

// The page is there at once, shows both sides, and is gone with the command.
func TestDemoServesAPage(t *testing.T) {
	addr, end := pageOf(t, command{page: true})
	streams := map[string]string{}
	for _, side := range []string{"without", "with"} {
		resp, err := http.Post("http://"+addr+"/"+side+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model": "endless_crash", "stream": true, "messages": []}`))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Errorf("%s: %v", side, err)
		}
		streams[side] = string(stream)
	}
	if s := streams["without"]; !strings.Contains(s, `"stop"`) || strings.Contains(s, "agent_crashed") {
		t.Errorf("without the sidecar:\n%s", s)
	}
	if s := streams["with"]; strings.Contains(s, `"stop"`) || !strings.Contains(s, "agent_crashed") || !strings.Contains(s, `"status":"completed"`) {
		t.Errorf("with the sidecar:\n%s", s)
	}
	if out := end(); strings.Contains(out, "1/6") {
		t.Errorf("the streams are printed as well:\n%s", out)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the port of the page is still open")
	}
}

// --listen has the page beside its ports.
func TestDemoServesAPageBesideItsPorts(t *testing.T) {
	addr, end := pageOf(t, command{
		scenarios: []string{"plain"}, listen: true, backendAddr: "127.0.0.1:0", sidecarAddr: "127.0.0.1:0",
	})
	resp, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %s", resp.Status)
	}
	if out := end(); !strings.Contains(out, "As it should be") {
		t.Errorf("the stream is not printed:\n%s", out)
	}
}

func TestDemoRefusesBadPageAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		"0.0.0.0:0": "not a loopback address", taken.Addr().String(): "in use by another program",
	} {
		var out bytes.Buffer
		err := command{page: true, pageAddr: addr, out: &out}.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--page-addr") || out.Len() > 0 {
			t.Errorf("%s: error %v, printed %q", addr, err, out.String())
		}
	}
}
