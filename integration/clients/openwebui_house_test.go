package clients

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// A connection is a line of Open WebUI's "Admin Settings, Connections": a
// Hermes with a model of that name, and the sidecar in front of it.
type connection struct {
	model   string
	options sidecar.Options // nil for none: straight to Hermes
	headers string          // that Open WebUI adds, as JSON
}

// A house is a real Open WebUI with a browser in front of it, and connections
// behind.
type house struct {
	*webui
	agents map[string]*agent
}

func newHouse(t *testing.T, connections ...connection) *house {
	program := openWebUI(t)
	h := &house{agents: map[string]*agent{}}
	var c sidecar.Config
	var urls []string
	extra := map[string]any{}
	for i, con := range connections {
		a := newAgent(t, con.model)
		h.agents[con.model] = a
		addr := a.up.Addr
		if con.options != nil {
			addr = harness.FreePort(t)
			c.Sites = append(c.Sites, sidecar.Site{Listen: addr, Upstream: a.up.Addr, Options: con.options})
		}
		urls = append(urls, "http://"+addr+"/v1")
		if con.headers != "" {
			extra[fmt.Sprint(i)] = map[string]any{"enable": true, "headers": json.RawMessage(con.headers)}
		}
	}
	sidecar.Run(t, t.TempDir(), c)
	configs, err := json.Marshal(extra)
	if err != nil {
		t.Fatal(err)
	}
	h.webui = newWebUI(t, startOpenWebUI(t, program, urls, "OPENAI_API_CONFIGS="+string(configs), "ENABLE_DIRECT_CONNECTIONS=true"))
	return h
}

// scene is a subtest. The house stays, and so does its browser.
func (h *house) scene(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		outside := h.T
		defer func() {
			if t.Failed() {
				h.Picture("failed " + strings.ReplaceAll(t.Name(), "/", " "))
			}
			h.T = outside
		}()
		h.T = t
		f(t)
	})
}

// move points the connection of a model at a sidecar, as an administrator does,
// and opens its page again.
func (h *house) move(model string, o sidecar.Options) {
	h.T.Helper()
	base, _ := sidecar.Serve(h.T, h.agents[model].up, o)
	h.configure("/openai/config", func(c map[string]any) {
		urls := c["OPENAI_API_BASE_URLS"].([]any)
		for i, u := range urls {
			if u == "http://"+h.agents[model].up.Addr+"/v1" {
				urls[i] = base + "/v1"
			}
		}
	})
}

// configure changes a part of Open WebUI's settings.
func (h *house) configure(path string, change func(c map[string]any)) {
	h.T.Helper()
	var c map[string]any
	if err := json.Unmarshal([]byte(h.api("GET", path, "")), &c); err != nil {
		h.T.Fatal(err)
	}
	change(c)
	want, err := json.Marshal(c)
	if err != nil {
		h.T.Fatal(err)
	}
	h.api("POST", path+"/update", string(want))
	var have map[string]any
	if err := json.Unmarshal([]byte(h.api("GET", path, "")), &have); err != nil || !reflect.DeepEqual(c, have) {
		h.T.Fatalf("the settings are %v, want %v", have, c)
	}
}

// derive makes a model of another one's, with settings as JSON.
func (h *house) derive(model, from, meta, params string) {
	h.T.Helper()
	body := fmt.Sprintf(`{"id": %q, "base_model_id": %q, "name": %q, "meta": %s, "params": %s}`, model, from, model, meta, params)
	if got := h.api("POST", "/api/v1/models/create", body); !strings.Contains(got, `"base_model_id":`) {
		h.T.Fatalf("no model is made: %s", got)
	}
}
