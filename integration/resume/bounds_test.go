package resume

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// sendSized sends a chat request with a key and a body of so many bytes, and returns the answer.
func sendSized(t *testing.T, c *client.Client, base, k string, size int) (id, answer string) {
	t.Helper()
	before, behind := `{"stream":true,"messages":[{"role":"user","content":"`, `"}]}`
	body := before + strings.Repeat("x", size-len(before)-len(behind)) + behind
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(key, k)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r := client.NewReply(t, res, func() {})
	return res.Header.Get(stream), r.All()
}

// TestMaxRequestOfHermesBoundsBoth: a request above max_request passes, and its answer is not
// kept. hermes_resume has no bound of its own, and follows a reload.
func TestMaxRequestOfHermesBoundsBoth(t *testing.T) {
	finish := make(chan struct{})
	close(finish)
	up := upstream.New(t, held(finish))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	config := func(directives string) string {
		return site("http://"+listen, "admin "+admin, directives+"\n\treverse_proxy "+up.Addr)
	}
	s := sidecar.RunCaddyfile(t, t.TempDir(), config("hermes_resume\n\thermes {\n\t\tmax_request 2KB\n\t}"))
	c := client.New(t, "http://"+listen)
	c.Reloading = true
	check := func(k string, size int, kept bool) {
		t.Helper()
		id, answer := sendSized(t, c, "http://"+listen, k, size)
		if (id != "") != kept || !strings.Contains(answer, " world") {
			t.Errorf("%d bytes: the stream has the id %q, and is\n%s", size, id, answer)
		}
	}
	check("a", 2000, true)
	check("b", 2001, false)
	reload(t, admin, config("hermes_resume\n\thermes {\n\t\tmax_request 20MB\n\t}"), s)
	check("c", 20_000_000, true)
	check("d", 20_000_001, false)
	reload(t, admin, config("hermes_resume"), s)
	check("e", 10_000_000, true)
	check("f", 10_000_001, false)
	if n := len(up.Requests()); n != 6 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestBodiesBeforeAnyCheckTakeTheirSize has clients that Hermes refuses send bodies of many
// values: the process takes no large multiple of them.
func TestBodiesBeforeAnyCheckTakeTheirSize(t *testing.T) {
	const size, clients = 10_000_000, 4
	up := upstream.New(t, upstream.AsJSON("401 Unauthorized", `{"error":{}}`))
	listen := harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin off", "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr),
		"GOGC=20", "GODEBUG=gcstoptheworld=1")
	sidecar.NeedsMemory(t)
	check := sidecar.LimitGrowth(t, s, clients*4*size)
	body := `{"stream":[{"":0}` + strings.Repeat(`,{"":0}`, (size-100)/len(`,{"":0}`)) + `]}`
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+listen+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set(key, strconv.Itoa(i))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, %v", res.Status, err)
			}
		})
	}
	all.Wait()
	check("four bodies of 10 MB")
}
