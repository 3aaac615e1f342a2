package recipes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The user and the chat of Open WebUI in these tests.
const (
	webUser = "6f1c2a9e-5f0b-4d55-9c1e-0a2b3c4d5e6f"
	webChat = "0b9d8c7a-1e2f-4a3b-8c4d-5e6f7a8b9c0d"
)

// onPort runs a recipe whose site is :8643, and returns a client of it.
func onPort(t testing.TB, r sidecar.Recipe, env ...string) *client.Client {
	t.Helper()
	listen := harness.FreePort(t)
	r.With(":8643", ":"+harness.Port(listen)).Caddy(env...)
	return client.New(t, "http://"+listen)
}

// own are the headers of the last request that say who asks.
func own(up *upstream.Server) map[string][]string {
	all := up.Requests()
	seen := map[string][]string{}
	for name, values := range all[len(all)-1].Header {
		if strings.HasPrefix(name, "X-Hermes-") || strings.HasPrefix(name, "X-Openwebui-") || name == "Authorization" {
			seen[name] = values
		}
	}
	return seen
}

// Hermes is told who asks by Caddy alone, with a key for each user.
func TestRecipeWhoAsks(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	const alice, webui = "Bearer alice-0123456789abcdef", "Bearer webui-0123456789abcdef"
	c := onPort(t, recipeOf(t, "who-asks").With("127.0.0.1:8642", up.Addr),
		"KEY_ALICE="+alice[7:], "KEY_OPENWEBUI="+webui[7:], "API_SERVER_KEY=the-agents-own")

	spoofed := []string{"X-Hermes-Session-Key", "bob", "X-Hermes-Session-Id", "api-0", "x-hermes-session-other", "y"}
	fromWebUI := []string{"X-OpenWebUI-User-Id", webUser, "X-OpenWebUI-User-Email", "a@example.com", "X-OpenWebUI-Chat-Id", webChat}
	person, chat := "openwebui."+webUser, "openwebui."+webUser+"."+webChat
	for _, q := range []struct {
		name, key string
		headers   []string
		user, id  string // that arrive
	}{
		{"a user's key", alice, nil, "alice", ""},
		{"a user who says she is another", alice, spoofed, "alice", ""},
		{"a user who says she is of Open WebUI", alice, append(fromWebUI, "X-OpenWebUI-Task", "chat"), "alice", ""},
		{"a chat in Open WebUI", webui, append(fromWebUI, "X-OpenWebUI-Task", "chat"), person, chat},
		{"the same, spoofed", webui, slices.Concat(spoofed, fromWebUI, []string{"X-OpenWebUI-Task", "chat"}), person, chat},
		{"a title", webui, append(fromWebUI, "X-OpenWebUI-Task", "chattitle_generation"), person, ""},
		{"no task", webui, fromWebUI, person, ""},
		{"a temporary chat", webui, []string{"X-OpenWebUI-User-Id", webUser, "X-OpenWebUI-Chat-Id", "local:6f1c2a9e", "X-OpenWebUI-Task", "chat"}, person, ""},
		{"no user", webui, []string{"X-OpenWebUI-Chat-Id", webChat, "X-OpenWebUI-Task", "chat"}, "", ""},
		{"a user that is none", webui, []string{"X-OpenWebUI-User-Id", "alice", "X-OpenWebUI-Chat-Id", webChat, "X-OpenWebUI-Task", "chat"}, "", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			c.Of(t).Chat(append([]string{"Authorization", q.key}, q.headers...)...).CheckRepaired(t)
			want := map[string][]string{"Authorization": {"Bearer the-agents-own"}}
			if q.user != "" {
				want["X-Hermes-Session-Key"] = []string{q.user}
			}
			if q.id != "" {
				want["X-Hermes-Session-Id"] = []string{q.id}
			}
			got, _ := json.Marshal(own(up))
			if want, _ := json.Marshal(want); string(got) != string(want) {
				t.Errorf("the agent saw %s, want %s", got, want)
			}
		})
	}

	n := len(up.Requests())
	// KEY_BOB is not set: that lets nobody in.
	for _, key := range []string{"", "Bearer ", "Bearer nobody", "Bearer fedcba9876543210", alice + "x", "Bearer the-agents-own", "Bearer {$KEY_BOB}"} {
		res := c.Chat("Authorization", key, "X-OpenWebUI-User-Id", webUser)
		body := res.All()
		var e struct{ Error strict.APIError }
		if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != http.StatusUnauthorized || e.Error.Code != "invalid_api_key" {
			t.Errorf("%q: %s %q", key, res.Status, body)
		}
	}
	for _, path := range []string{"/api/sessions", "/api/sessions/s/chat/stream", "/v1/runs", "/v1/responses", "/p/other/v1/chat/completions"} {
		if res := c.Post(path, "Authorization", alice); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if len(up.Requests()) != n {
		t.Errorf("the agent was asked %d times more", len(up.Requests())-n)
	}
}

// An identity provider says who asks.
func TestRecipeWhoAsksSingleSignOn(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	authority := upstream.New(t, func(x *upstream.Exchange) {
		switch x.Req.Header.Get("Cookie") {
		case "session=alice":
			x.Header("200 OK", "Remote-User: alice", "Content-Length: 0")
		case "session=unnamed":
			x.Header("200 OK", "Content-Length: 0")
		default:
			x.Header("401 Unauthorized", "Content-Length: 0")
		}
	})
	c := onPort(t, recipeOf(t, "who-asks-sso").With("127.0.0.1:8642", up.Addr).With("127.0.0.1:9091", authority.Addr), "API_SERVER_KEY=the-agents-own")
	spoofed := []string{"X-Hermes-Session-Key", "bob", "X-Hermes-Session-Id", "api-0", "Remote-User", "bob"}
	for session, want := range map[string]string{
		"session=alice":   `{"Authorization":["Bearer the-agents-own"],"X-Hermes-Session-Key":["alice"]}`,
		"session=unnamed": `{"Authorization":["Bearer the-agents-own"]}`,
	} {
		c.Chat(append(spoofed, "Cookie", session)...).CheckRepaired(t)
		if got, _ := json.Marshal(own(up)); string(got) != want {
			t.Errorf("%s: the agent saw %s, want %s", session, got, want)
		}
	}
	if res := c.Chat(spoofed...); res.StatusCode != http.StatusUnauthorized || len(up.Requests()) != 2 {
		t.Errorf("a stranger: %s, the agent was asked %d times", res.Status, len(up.Requests()))
	}
	if res := c.Post("/api/sessions", "Cookie", "session=alice"); res.StatusCode != http.StatusNotFound || len(up.Requests()) != 2 {
		t.Errorf("all sessions: %s, the agent was asked %d times", res.Status, len(up.Requests()))
	}
}
