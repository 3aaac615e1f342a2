package operations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// listing is what the admin endpoint answers, the names as in its documentation.
type listing struct {
	Open []struct {
		ID, Model, Upstream, Path string
		Since                     time.Time
		Age                       float64 `json:"age_seconds"`
		Silence                   float64 `json:"silence_seconds"`
		Chunks                    int
		Tools                     []struct {
			ID, Name string
			Seconds  float64
		} `json:"open_tools"`
	}
	Ended []struct {
		ID, Model, Upstream, Path, Outcome string
		Finish                             string `json:"finish_reason"`
		Status, Chunks, Tools              int
		Seconds                            float64
		Ended                              time.Time
	}
}

func (w *watched) list() (l listing) {
	w.t.Helper()
	res, body := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
	if got := res.Header.Get("Content-Type"); got != "application/json" {
		w.t.Errorf("Content-Type %q", got)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		w.t.Fatalf("%v in %s", err, body)
	}
	return l
}

// TestAdminListsStreams while they are open, with their tools, across a reload,
// and once they have ended.
func TestAdminListsStreams(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("\n`💻 ls -la /secret`\n")
		if x.Wait(rest) {
			x.Reset()
		}
	})
	w := watch(t, up, "", "hermes")
	if l := w.list(); l.Open == nil || l.Ended == nil || len(l.Open)+len(l.Ended) != 0 {
		t.Fatalf("at the beginning: %+v", l)
	}
	live := w.Chat()
	live.Frame()
	live.Frame()
	check := func(when string) {
		t.Helper()
		l := w.list()
		if len(l.Open) != 1 || len(l.Ended) != 0 {
			t.Fatalf("%s: %+v", when, l)
		}
		o := l.Open[0]
		if !strings.HasPrefix(o.ID, "chatcmpl-") || o.Model != "hermes-agent" || o.Upstream != up.Addr || o.Path != "/v1/chat/completions" || o.Chunks != 2 {
			t.Errorf("%s: %+v", when, o)
		}
		if o.Age <= 0 || o.Silence <= 0 || o.Silence > o.Age || time.Since(o.Since) > time.Hour {
			t.Errorf("%s: times %+v", when, o)
		}
		if len(o.Tools) != 1 || o.Tools[0].Name != "terminal" || !strings.HasPrefix(o.Tools[0].ID, "call_") || o.Tools[0].Seconds <= 0 {
			t.Errorf("%s: tools %+v", when, o.Tools)
		}
	}
	check("while it is open")
	if failed := w.reload("hermes {\n\t\tprogress off\n\t}"); failed != "" {
		t.Fatal(failed)
	}
	check("behind a reload")
	if _, body := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK); strings.Contains(body, "secret") {
		t.Errorf("it tells what a tool does: %s", body)
	}
	close(rest)
	live.All()
	l := w.list()
	if len(l.Open) != 0 || len(l.Ended) != 1 {
		t.Fatalf("at the end: %+v", l)
	}
	e := l.Ended[0]
	if e.Outcome != "upstream_aborted" || e.Status != 200 || e.Finish != "error" || e.Chunks != 2 || e.Tools != 1 || e.Seconds <= 0 || time.Since(e.Ended) > time.Hour || e.Upstream != up.Addr {
		t.Errorf("ended: %+v", e)
	}
}

// TestAdminEndpointIsGuarded as Caddy guards its own: other methods, hosts and
// origins are refused.
func TestAdminEndpointIsGuarded(t *testing.T) {
	w := watch(t, upstream.New(t, upstream.AsJSON("200 OK", "{}")), "", "hermes")
	url := "http://" + w.Admin + "/hermes/streams"
	w.get(url, http.StatusForbidden, "Host", "evil.example")
	w.get(url, http.StatusForbidden, "Origin", "http://evil.example", "Sec-Fetch-Mode", "cors")
	w.get(url+"/more", http.StatusNotFound)
	res, err := http.Post(url, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %s, Allow %q", res.Status, res.Header.Get("Allow"))
	}
}

// TestAdminOff: the endpoint does not exist, and streams do not mind.
func TestAdminOff(t *testing.T) {
	url, _ := sidecar.Serve(t, upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame)), nil)
	c := client.New(t, url)
	c.Chat().Answer().CheckGood(t)
	res, err := c.HTTP.Get(url + "/hermes/streams")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Via") == "" {
		t.Error("the sidecar itself has answered")
	}
}
