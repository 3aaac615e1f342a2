package caddymodule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

// An answer with commit messages, a chat whose model has written them, and a tool event.
const (
	commitMessages = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"Pick one:\n\n` +
		"`🎨 improve structure`" + `\n\n` + "`⚡ improve performance`" + `\n"},"finish_reason":null}]}` + "\n\n"
	commitHistory = `{"messages":[{"role":"user","content":"3 commit messages please"},{"role":"assistant","content":"Pick one:\n\n` +
		"`🎨 improve structure`" + `\n\n` + "`⚡ improve performance`" + `"},{"role":"user","content":"Use the second."}]}`
	toolEvents = "event: hermes.tool.progress\n" + `data: {"tool":"terminal","emoji":"💻","label":"ls","toolCallId":"c1","status":"running"}` + "\n\n" +
		"event: hermes.tool.progress\n" + `data: {"tool":"terminal","toolCallId":"c1","status":"completed"}` + "\n\n"
)

// TestWhatLooksLikeMarkers leaves answers and histories, or stays, by what upstream has shown before,
// through reloads and restarts. Histories do not know which upstream they go to.
func TestWhatLooksLikeMarkers(t *testing.T) {
	const text, events, old = commitMessages + usedStop, toolEvents + textFrame + usedStop, oldMarker + textFrame + usedStop
	type step struct {
		upstream, body string
		answer         string // "stays" or "goes", "" if the answer has none
		history        string
	}
	for name, c := range map[string]struct {
		options string
		steps   []step
	}{
		"one upstream": {"", []step{
			{"a:1", text, "goes", "goes"}, {"a:1", events, "", "goes"}, {"a:1", text, "stays", "stays"},
			{"", reload, "", ""}, {"a:1", text, "stays", "stays"}, {"", restart, "", ""}, {"a:1", text, "stays", "stays"},
			{"a:1", old, "", "stays"}, {"a:1", text, "goes", "goes"}, // an old one has come back
			{"", restart, "", ""}, {"a:1", text, "goes", "goes"}, {"a:1", toolEvents + text, "stays", "goes"}, {"a:1", text, "stays", "stays"},
		}},
		"two upstreams": {"", []step{
			{"a:1", events, "", "goes"}, {"b:1", text, "goes", "stays"}, {"a:1", text, "stays", "stays"},
			{"b:1", old, "", "stays"}, {"a:1", text, "stays", "goes"}, {"a:1", events, "", "goes"}, {"b:1", text, "goes", "stays"},
		}},
		"strip":        {`"imitations":"strip"`, []step{{"a:1", events, "", "goes"}, {"a:1", text, "goes", "goes"}}},
		"keep":         {`"imitations":"keep"`, []step{{"a:1", text, "stays", "goes"}}},
		"no histories": {`"history":"keep"`, []step{{"a:1", text, "goes", "stays"}}},
	} {
		sidecar := newSidecar(t, c.options)
		for i, s := range c.steps {
			if sidecar.again(s.body) {
				continue
			}
			var got []byte
			w, _ := post(t, sidecar.Handler, "/v1/chat/completions", commitHistory, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				got, _ = io.ReadAll(r.Body)
				return answer(s.upstream, s.body)(w, r)
			}))
			end := map[bool]string{true: "stays", false: "goes"}
			if stays := end[strings.Contains(w.Body.String(), "`🎨 improve structure`")]; s.answer != "" && s.answer != stays {
				t.Errorf("%s, step %d: the answer's %s, want %s:\n%s", name, i+1, stays, s.answer, w.Body)
			}
			if stays := end[string(got) == commitHistory]; stays != s.history || stays == "goes" && strings.Contains(string(got), "🎨") {
				t.Errorf("%s, step %d: the history's %s, want %s:\n%s", name, i+1, stays, s.history, got)
			}
		}
		sidecar.cleanup()
	}
}

// TestHandlersOfOneServer know what they have seen themselves; one that has seen nothing believes the
// others. They are of one configuration, and share its metrics.
func TestHandlersOfOneServer(t *testing.T) {
	const config = `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes"},{"handler":"hermes","progress":"off"},{"handler":"static_response"}]}]}}}}}`
	ctx, provisioned := provisionServer(t, []byte(config), t.TempDir())
	t.Cleanup(func() { leave(t, ctx) })
	if n := hermesapp.OfProcess().Configurations.Load(); n != 1 {
		t.Errorf("%d configurations, want 1", n)
	}
	h, other := provisioned.Routes[0].Handlers[0].(*Handler), provisioned.Routes[0].Handlers[1].(*Handler)
	registries[h] = ctx.GetMetricsRegistry()
	before := scrape(t, h)[okStreams]
	heals := func(h *Handler, listen, body string) bool {
		t.Helper()
		var got []byte
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(commitHistory))
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{Listen: []string{listen}})
		err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			got, _ = io.ReadAll(r.Body)
			return answer("a:1", body)(w, r)
		}))
		if err != nil {
			t.Error(err)
		}
		return string(got) != commitHistory
	}
	events, old, plain := toolEvents+textFrame+usedStop, oldMarker+textFrame+usedStop, textFrame+usedStop
	for i, s := range []struct {
		h            *Handler
		listen, body string
		heals        bool
	}{
		{h, ":1", plain, true}, {h, ":1", events, true}, {h, ":1", plain, false}, {other, ":1", plain, false}, {other, ":2", plain, true},
		{other, ":1", old, false}, {other, ":1", plain, true}, {h, ":1", plain, false}, // each knows its own
	} {
		if got := heals(s.h, s.listen, s.body); got != s.heals {
			t.Errorf("step %d: healed %t", i+1, got)
		}
	}
	if got := scrape(t, h)[okStreams] - before; got != 8 {
		t.Errorf("%v streams, want 8", got)
	}
}
