package queuecaddy_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuecaddy"
)

// queues returns the handlers hermes_queue of a configuration, in the order of the file, each with
// the key of its line; "!" in front says that no hermes comes after it.
func queues(t *testing.T, file, adapter string) (keys []string) {
	t.Helper()
	config := []byte(file)
	if adapter != "" {
		var err error
		if config, _, err = caddyconfig.GetAdapter(adapter).Adapt([]byte("{\n\tadmin off\n\tauto_https off\n\tlog default {\n\t\toutput discard\n\t}\n\tstorage file_system "+t.TempDir()+"\n}\n"+file), nil); err != nil {
			t.Fatalf("%v in\n%s", err, file)
		}
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&c)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	return queuecaddy.Keys(app.(*caddyhttp.App))
}

// TestLineOfARequest: it is that of the backend, if there is one.
func TestLineOfARequest(t *testing.T) {
	t.Setenv("HERMES_ADDRESS", "127.0.0.1:9")
	const a, b, none = "127.0.0.1:11", "127.0.0.1:12", "!any of :1"
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"a site":               {":1 {\n hermes_queue\n hermes\n reverse_proxy 127.0.0.1:11\n}", []string{a}},
		"hermes_proxy":         {":1 {\n hermes_queue\n hermes_proxy 127.0.0.1:11\n}", []string{a}},
		"two sites, one agent": {":1 {\n hermes_queue\n hermes_proxy 127.0.0.1:11\n}\n:2 {\n hermes_queue\n hermes\n reverse_proxy 127.0.0.1:11\n}", []string{a, a}},
		"two sites, two agents": {
			":1 {\n hermes_queue\n hermes_proxy 127.0.0.1:11\n}\n:2 {\n hermes_queue\n hermes_proxy 127.0.0.1:12\n}", []string{a, b},
		},
		"hosts of one server": {
			"http://a.test:1 {\n hermes_queue\n hermes_proxy 127.0.0.1:11\n}\nhttp://b.test:1 {\n hermes_queue\n hermes_proxy 127.0.0.1:12\n}", []string{a, b},
		},
		"several upstreams":        {":1 {\n hermes_queue\n hermes\n reverse_proxy 127.0.0.1:12 127.0.0.1:11\n}", []string{a + " " + b}},
		"the same upstream twice":  {":1 {\n hermes_queue\n hermes\n reverse_proxy 127.0.0.1:11 127.0.0.1:11\n}", []string{a}},
		"of the environment":       {":1 {\n hermes_queue\n hermes_proxy {env.HERMES_ADDRESS}\n}", []string{"127.0.0.1:9"}},
		"of the environment, text": {":1 {\n hermes_queue\n hermes_proxy {$HERMES_ADDRESS}\n}", []string{"127.0.0.1:9"}},
		"of the request":           {":1 {\n hermes_queue\n hermes_proxy {http.request.host}:1\n}", []string{"{http.request.host}:1"}},
		"dynamic": {
			":1 {\n hermes_queue\n hermes_proxy {\n  dynamic a hermes.test 8642\n }\n}",
			[]string{`http.reverse_proxy.upstreams.a{"name":"hermes.test","port":"8642","refresh":60000000000}`},
		},
		"a socket": {":1 {\n hermes_queue\n hermes_proxy unix//run/hermes.sock\n}", []string{"unix//run/hermes.sock"}},
		"a transport of ours": {
			":1 {\n hermes_queue\n hermes\n reverse_proxy https://distant.test {\n  transport hermes_resume\n }\n}", []string{"distant.test:443"},
		},
		"with hermes_resume": {":1 {\n hermes_resume\n hermes_queue\n hermes_proxy 127.0.0.1:11\n}", []string{a}},
		"in handle":          {":1 {\n handle /v1/* {\n  hermes_queue\n  hermes_proxy 127.0.0.1:11\n }\n handle {\n  reverse_proxy 127.0.0.1:12\n }\n}", []string{a}},
		"before handle": {
			":1 {\n hermes_queue\n handle /v1/* {\n  hermes_proxy 127.0.0.1:11\n }\n handle {\n  reverse_proxy 127.0.0.1:12\n }\n}", []string{a},
		},
		"two agents by path": {
			":1 {\n hermes_queue\n handle /a/* {\n  hermes_proxy 127.0.0.1:11\n }\n handle {\n  hermes_proxy 127.0.0.1:12\n }\n}", []string{a + " " + b},
		},
		"a line for each": {
			":1 {\n handle /a/* {\n  hermes_queue\n  hermes_proxy 127.0.0.1:11\n }\n handle {\n  hermes_queue\n  hermes_proxy 127.0.0.1:12\n }\n}", []string{a, b},
		},
		"in handle and again after it": {
			":1 {\n hermes_queue\n handle /a/* {\n  hermes_queue\n  hermes_proxy 127.0.0.1:11\n }\n handle {\n  hermes_proxy 127.0.0.1:12\n }\n}", []string{a + " " + b, a},
		},
		"beside a chat UI": {":1 {\n hermes_queue\n hermes_proxy /v1/* 127.0.0.1:11\n reverse_proxy 127.0.0.1:12\n}", []string{a}},
		"a named matcher":  {":1 {\n @api path /v1/* /api/*\n hermes_queue @api\n hermes @api\n reverse_proxy @api 127.0.0.1:11\n respond no\n}", []string{a}},
		"in route":         {":1 {\n route /v1/* {\n  hermes_queue\n  hermes\n  reverse_proxy 127.0.0.1:11\n }\n reverse_proxy 127.0.0.1:12\n}", []string{a}},
		"nested": {
			":1 {\n route {\n  hermes_queue\n  handle_path /x/* {\n   route {\n    hermes\n    handle {\n     reverse_proxy 127.0.0.1:11\n    }\n   }\n  }\n }\n}", []string{a},
		},
		"forward_auth between": {
			":1 {\n route {\n  hermes_queue\n  forward_auth 127.0.0.1:12 {\n   uri /x\n  }\n  hermes\n  reverse_proxy 127.0.0.1:11\n }\n}", []string{a},
		},
		"for errors":    {":1 {\n hermes_queue\n hermes_proxy 127.0.0.1:11\n handle_errors {\n  reverse_proxy 127.0.0.1:12\n }\n}", []string{a}},
		"within errors": {":1 {\n respond no\n handle_errors {\n  hermes_queue\n  hermes_proxy 127.0.0.1:12\n }\n}", []string{b}},
		"in a named route": {
			"&(agent) {\n route {\n  hermes_queue\n  hermes\n  reverse_proxy 127.0.0.1:11\n }\n}\n:1 {\n invoke agent\n}", []string{a},
		},
		"before a named route": {
			"&(agent) {\n route {\n  hermes\n  reverse_proxy 127.0.0.1:11\n }\n}\n:1 {\n route {\n  hermes_queue\n  invoke agent\n }\n}", []string{a},
		},
		"a named route that invokes itself": {
			"&(agent) {\n route {\n  hermes_queue\n  invoke agent\n }\n}\n:1 {\n invoke agent\n}", []string{none},
		},
		"another handler answers": {":1 {\n hermes_queue\n hermes\n respond hello\n}", []string{"any of :1"}},
		"no hermes":               {":1 {\n hermes_queue\n reverse_proxy 127.0.0.1:11\n}", []string{none}},
		"hermes in another handle": {
			":1 {\n handle /a/* {\n  hermes_queue\n  reverse_proxy 127.0.0.1:11\n }\n handle {\n  hermes_proxy 127.0.0.1:12\n }\n}", []string{none},
		},
		"hermes of another site": {
			"http://a.test:1 {\n hermes_queue\n respond hello\n}\nhttp://b.test:1 {\n hermes_proxy 127.0.0.1:12\n}", []string{none},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // servers are in a map
				if got := queues(t, c.file, "caddyfile"); strings.Join(got, ", ") != strings.Join(c.want, ", ") {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestLineOfARequestInJSON: no site, and routes of all sorts.
func TestLineOfARequestInJSON(t *testing.T) {
	const q, h, a, b = `{"handler":"hermes_queue"}`, `{"handler":"hermes"}`,
		`{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:11"}]}`, `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:12"}]}`
	route := func(more string, handlers ...string) string {
		return `{` + more + `"handle":[` + strings.Join(handlers, ",") + `]}`
	}
	const group, match = `"group":"g",`, `"match":[{"path":["/a/*"]}],`
	for name, c := range map[string]struct{ routes, want string }{
		"one route":                          {route("", q, h, a), "127.0.0.1:11"},
		"a route for each":                   {route("", q) + "," + route("", h) + "," + route("", a), "127.0.0.1:11"},
		"a route that may be taken":          {route("", q) + "," + route(match, h, b) + "," + route("", h, a), "127.0.0.1:11 127.0.0.1:12"},
		"one that is always taken":           {route("", q) + "," + route("", h, b) + "," + route("", a), "127.0.0.1:12"},
		"a terminal one":                     {route("", q) + "," + route(match+`"terminal":true,`, h, `{"handler":"static_response"}`) + "," + route("", a), "any of :1"},
		"one of a group":                     {route(group+match, q, h) + "," + route(group, b) + "," + route("", a), "127.0.0.1:11"},
		"one of a group, and then of others": {route(group+match, q, h) + "," + route(match, b) + "," + route(group, b) + "," + route("", a), "127.0.0.1:11 127.0.0.1:12"},
		"a subroute without routes":          {route("", q, h, `{"handler":"subroute"}`, a), "127.0.0.1:11"},
		"for errors of a subroute":           {route("", `{"handler":"subroute","routes":[`+route("", q, h, a)+`],"errors":{"routes":[`+route("", b)+`]}}`), "127.0.0.1:11"},
		"within errors":                      {route("", `{"handler":"subroute","routes":[`+route("", b)+`],"errors":{"routes":[`+route("", q, h, a)+`]}}`), "127.0.0.1:11"},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"admin":{"disabled":true},"logging":{"logs":{"default":{"writer":{"output":"discard"}}}},"storage":{"module":"file_system","root":"` + filepath.ToSlash(t.TempDir()) + `"},"apps":{"http":{"servers":{"s":{"listen":[":1"],"automatic_https":{"disable":true},"routes":[` + c.routes + `]}}}}}`
			if got := queues(t, config, ""); strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
