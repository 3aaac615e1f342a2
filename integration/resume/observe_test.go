package resume

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestWhatCanBeSeen of a stream that is begun, left, continued and repeated: in the access
// log, in the metrics, in the list of the admin API and in the log.
func TestWhatCanBeSeen(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin "+admin,
		"log\n\tmetrics /metrics\n\tlog_append seen_outcome {http.hermes.outcome}\n\tlog_append seen_resumed {http.hermes.resumed}\n\thermes_resume\n\thermes\n\treverse_proxy "+up.Addr))
	c := client.New(t, "http://"+listen)
	readers := func() string {
		_, body := client.Get(t, http.DefaultClient, "http://"+admin+"/hermes/streams")
		var list struct {
			Open []struct{ Readers *int }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Open) != 1 || list.Open[0].Readers == nil {
			return body
		}
		return fmt.Sprint(*list.Open[0].Readers)
	}
	first := c.Chat(key, "k")
	id := first.Header.Get(stream)
	frame(t, first)
	frame(t, first)
	if got := readers(); got != "1" {
		t.Errorf("readers: %s", got)
	}
	first.Leave()
	if !s.Says(`"hermes_resumed":"begun"`) {
		t.Fatalf("the first client is not in the log\n%s", s.Log)
	}
	if got := readers(); got != "0" {
		t.Errorf("readers: %s", got)
	}
	f := metrics.Scrape(t, "http://"+listen+"/metrics")
	for name, want := range map[string]float64{
		"caddy_hermes_resume_readers": 0, "caddy_hermes_resume_detached": 1, "caddy_hermes_resume_streams": 1,
		"caddy_hermes_resume_detached_total": 1,
	} {
		m := f[name].GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if m := f["caddy_hermes_resume_bytes"].GetMetric()[0]; m.GetGauge().GetValue() < 1000 {
		t.Errorf("%v bytes", m.GetGauge().GetValue())
	}
	close(rest)
	if !s.Says("stream ended while nobody listened") {
		t.Errorf("its end is not in the log\n%s", s.Log)
	}
	c.Chat(behind, id+"/1").All()
	c.Chat(key, "k").All()
	whole := c.Chat(key, "another").All() // which stays to the end
	if !strings.Contains(whole, "[DONE]") {
		t.Errorf("%q", whole)
	}
	for _, line := range []string{`"hermes_resumed":"continued"`, `"hermes_resumed":"replayed"`, `"seen_resumed":"begun"`, `"seen_outcome":"ok"`, `"hermes_outcome":"ok"`} {
		if !s.Says(line) {
			t.Errorf("no %s in the log\n%s", line, s.Log)
		}
	}
	if n := len(up.Requests()); n != 2 {
		t.Errorf("upstream was asked %d times", n)
	}
	if strings.Contains(strings.ReplaceAll(s.Log.String(), `X-Hermes-Stream`, ""), `"uri":"/v1/chat/completions/`+id) {
		t.Error("the id is in the log")
	}
}

// TestCompressed has each client's answer compressed for it alone: what is kept is not.
func TestCompressed(t *testing.T) {
	rest := make(chan struct{})
	close(rest)
	up := upstream.New(t, held(rest))
	base, _ := run(t, up, "", "encode {\n\t\tminimum_length 1\n\t\tmatch {\n\t\t\theader Content-Type text/event-stream*\n\t\t}\n\t}\n\thermes_resume\n\thermes")
	c := client.New(t, base)
	zipped := c.Chat(key, "k", "Accept-Encoding", "gzip")
	if zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("header %v", zipped.Header)
	}
	unzip := func(r *client.Reply) string {
		z, err := gzip.NewReader(r.In)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := unzip(zipped)
	plain := c.Chat(key, "k")
	if body := plain.All(); plain.Header.Get("Content-Encoding") != "" || body != want {
		t.Errorf("%v %q", plain.Header, body)
	}
	again := c.Chat(key, "k", "Accept-Encoding", "gzip")
	if again.Header.Get("Content-Encoding") != "gzip" || unzip(again) != want {
		t.Errorf("header %v", again.Header)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}
