package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A memory is that of a client: of its credentials, its site and agent, and of what tells users of one
// key apart.
func TestWhoseMemory(t *testing.T) {
	const user = "{http.request.header.X-User}"
	turn := rewrite.Turn{Question: rewrite.TextOf("q"), Answer: rewrite.TextOf("a")}
	at := func(address string, h *Handler, target string, header ...string) rewrite.Memory {
		r := httptest.NewRequest(http.MethodPost, target, nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), nil)
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, address)
		return h.memory()(r)
	}
	of := func(h *Handler, target string, header ...string) rewrite.Memory {
		return at("192.0.2.9", h, target, header...)
	}
	const path = "http://a.example/v1/chat/completions"
	key := []string{"Authorization", "Bearer ada"}
	as := func(name string) []string { return append(key[:2:2], "X-User", name) }
	for name, h := range map[string]*Handler{
		"header": {Identity: &options.Identity{Header: user}}, "session": {Identity: &options.Identity{Session: user}},
		"prompt": {Identity: &options.Identity{Prompt: user}}, "approvals": {Approvals: &options.Approvals{Link: "http://a/b", By: user}},
	} {
		of(h, path, as("ada")...).Remember(turn, []rewrite.ToolRun{{Name: "terminal"}})
		for who, m := range map[string]rewrite.Memory{
			"another user": of(h, path, as("bob")...), "nobody": of(h, path, key...), "no key": of(h, path, "X-User", "ada"),
			"another host":  of(h, "http://b.example/v1/chat/completions", as("ada")...),
			"another agent": of(h, "http://a.example/p/x/v1/chat/completions", as("ada")...),
			"no identity":   of(new(Handler), path, as("ada")...),
		} {
			if !m.Empty() {
				t.Errorf("%s: %s has the memory", name, who)
			}
		}
		if of(h, path, as("ada")...).Recall(turn) == nil {
			t.Errorf("%s: nobody has the memory", name)
		}
		of(h, path, as("ada")...).Remember(turn, nil)
	}
	from := func(address string, header ...string) rewrite.Memory {
		return at(address, &Handler{Identity: &options.Identity{Prompt: user}}, path, header...)
	}
	remembers := func(m rewrite.Memory) {
		m.Remember(turn, []rewrite.ToolRun{{Name: "terminal"}})
		t.Cleanup(func() { m.Remember(turn, nil) }) // the memory is the process's: with -count, the next test has it
	}
	remembers(from("192.0.2.1"))
	if from("192.0.2.1").Empty() || !from("192.0.2.2").Empty() {
		t.Error("clients without credentials are not told apart by their addresses")
	}
	for _, header := range [][]string{{"Authorization", "Bearer ada"}, {"X-User", "ada"}} {
		remembers(from("192.0.2.1", header...))
		if from("192.0.2.2", header...).Empty() {
			t.Errorf("%v is another client at another address", header)
		}
	}
	if (&Handler{Memory: "off"}).memory() != nil {
		t.Error("off is on")
	}
}
