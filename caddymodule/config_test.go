package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// parseConfig parses a whole configuration strictly, and gives it storage in a
// directory of the test's, no admin endpoint and no log output.
func parseConfig(t *testing.T, config []byte) *caddy.Config {
	t.Helper()
	return parseConfigIn(t, config, t.TempDir())
}

// parseConfigIn is parseConfig with the directory of the storage.
func parseConfigIn(t testing.TB, config []byte, dir string) *caddy.Config {
	t.Helper()
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		t.Fatal(err)
	}
	storage, err := json.Marshal(map[string]string{"module": "file_system", "root": dir})
	if err != nil {
		t.Fatal(err)
	}
	c.StorageRaw = storage
	c.Admin = &caddy.AdminConfig{Disabled: true}
	c.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)}},
	}}
	return &c
}

// provisionServer provisions a configuration with the server s, and storage in dir.
func provisionServer(t testing.TB, config []byte, dir string) (caddy.Context, *caddyhttp.Server) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(parseConfigIn(t, config, dir))
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	return ctx, app.(*caddyhttp.App).Servers["s"]
}

// registries are those of the configurations that handlers have been provisioned in.
var registries = make(map[*Handler]*prometheus.Registry)

// provision provisions a configuration with one hermes handler of the options,
// JSON members, and returns the handler. It is cleaned up at the end of the
// test, or by calling cleanup.
func provision(t *testing.T, options, dir string) (h *Handler, cleanup func()) {
	t.Helper()
	process := hermesapp.OfProcess()
	if process.Configurations.Load() == 0 { // as in a process that has just begun, but with its counters
		process.Usage, process.Origins = new(usage.Memory), new(proxy.Origins)
	}
	ctx, server := provisionServer(t, jsonConfig(options), dir)
	h = server.Routes[0].Handlers[0].(*Handler)
	registries[h] = ctx.GetMetricsRegistry()
	done := false
	cleanup = func() {
		if done {
			return
		}
		done = true
		leave(t, ctx)
	}
	t.Cleanup(cleanup)
	return h, cleanup
}

// leave cleans up the hermes app of a configuration.
func leave(t testing.TB, ctx caddy.Context) {
	t.Helper()
	app, err := hermesapp.Of(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Cleanup(); err != nil {
		t.Errorf("cleanup: %v", err)
	}
}

// handlers returns the handlers of a configuration, but not those within others.
func handlers(t *testing.T, config string) (all []map[string]any) {
	t.Helper()
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				find(e)
			}
		case map[string]any:
			if v["handler"] != nil {
				all = append(all, v)
				return
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				find(v[name])
			}
		}
	}
	find(decodeJSON(t, config))
	return all
}

// onlyHandler returns the only hermes handler of a configuration.
func onlyHandler(t *testing.T, config []byte) *Handler {
	t.Helper()
	all := slices.DeleteFunc(handlers(t, string(config)), func(h map[string]any) bool { return h["handler"] != "hermes" })
	if len(all) != 1 {
		t.Fatalf("%d hermes handlers, want 1, in\n%s", len(all), config)
	}
	delete(all[0], "handler") // as Caddy does
	b, err := json.Marshal(all[0])
	h := new(Handler)
	if err = errors.Join(err, json.Unmarshal(b, h)); err != nil {
		t.Fatal(err)
	}
	return h
}

// compile returns what the options of h stand for.
func compile(h *Handler) (proxy.Options, error) { return options.Of(h).Compile() }

// plain returns the options without tools, so that they can be compared, and with the
// defaults that zero values stand for.
func plain(o proxy.Options) proxy.Options {
	r := &o.Rewrite
	r.Tools = nil
	r.Progress = cmp.Or(r.Progress, rewrite.ProgressForms()[0])
	r.Imitations = cmp.Or(r.Imitations, rewrite.ImitationsValues()[0])
	r.Reasoning = cmp.Or(r.Reasoning, rewrite.ReasoningValues()[0])
	r.ErrorFinish = cmp.Or(r.ErrorFinish, rewrite.ErrorFinishForms()[0])
	r.ZeroUsage = cmp.Or(r.ZeroUsage, rewrite.ZeroUsageValues()[0])
	r.EmptyAnswer = cmp.Or(r.EmptyAnswer, rewrite.EmptyAnswerValues()[0])
	r.KeepaliveForm = cmp.Or(r.KeepaliveForm, rewrite.KeepaliveForms()[0])
	r.ParallelWindow = cmp.Or(r.ParallelWindow, rewrite.DefaultParallelWindow)
	r.MaxFrame = cmp.Or(r.MaxFrame, rewrite.DefaultMaxFrame)
	o.History = cmp.Or(o.History, proxy.HistoryValues()[0])
	return o
}

func sameOptions(t *testing.T, got, want proxy.Options) {
	t.Helper()
	if g, w := plain(got), plain(want); !reflect.DeepEqual(g, w) {
		t.Errorf("options\n%+v\nwant\n%+v", g, w)
	}
}

// contextWith returns the context of a request with a replacer in it.
func contextWith(r *http.Request, repl *caddy.Replacer) context.Context {
	return context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
}
