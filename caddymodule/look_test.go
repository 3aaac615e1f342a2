package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// checked validates a configuration as caddy validate does, and returns its warnings about handlers
// of the sidecar's.
func checked(t *testing.T, config []byte) (warnings []string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	c := parseConfig(t, config)
	c.Logging.Logs["default"].WriterRaw = json.RawMessage(`{"output":"file","filename":` + quote(file) + `}`)
	err = caddy.Validate(c)
	log, _ := os.ReadFile(file)
	for line := range strings.Lines(string(log)) {
		var entry struct{ Level, Logger, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "warn" && strings.HasPrefix(entry.Logger, "http.handlers.hermes") {
			warnings = append(warnings, entry.Msg)
		}
	}
	return warnings, err
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// checkCaddyfile is checked for a Caddyfile. The warnings are joined.
func checkCaddyfile(t *testing.T, text string) (warnings string, err error) {
	t.Helper()
	config, err := adapt("(agent) {\nroute {\n" + proxied + "\nhermes\n}\n}\n(repair) {\nhermes_resume\nhermes\n}\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	all, err := checked(t, []byte(config))
	return strings.Join(all, "\n"), err
}

const proxied = "reverse_proxy 127.0.0.1:8642"

// What can never be meant is an error that says what to write.
func TestWhatCanNeverBeMeant(t *testing.T) {
	const (
		blocked = "no request reaches hermes, because the reverse_proxy before it answers them all: put hermes before reverse_proxy"
		nothing = "no handler after hermes answers"
		late    = "comes after hermes, which depends on it: put "
		noPage  = "approvals link is set, but nothing serves the pages that the links lead to: add hermes_approvals"
		noReply = "approvals reply does nothing without hermes_resume"
		loop    = "points back to its own server"
	)
	for name, c := range map[string]struct{ site, want string }{
		"an upstream with a path":      {"hermes\nhandle /v1/* {\nreverse_proxy 127.0.0.1:8642/v1\n}", "write 127.0.0.1:8642, without a path"},
		"the proxy first":              {"route {\n" + proxied + "\nhermes\n}", blocked},
		"the proxy in front of two":    {"route {\n" + proxied + "\nhermes\n" + proxied + "\n}", blocked},
		"in a handle":                  {"handle /v1/* {\nroute {\n" + proxied + "\nhermes\n}\n}", blocked},
		"hermes_proxy first":           {"route {\nhermes_proxy 127.0.0.1:8642\nhermes_resume\n}", strings.ReplaceAll(blocked, "hermes,", "hermes_resume,")[:30]},
		"the page behind a proxy":      {"route {\nhermes\n" + proxied + "\nhermes_approvals\n}", "no request reaches hermes_approvals"},
		"in a snippet":                 {"import agent", blocked},
		"in a named route":             {"invoke agent\n}\n&(agent) {\nroute {\n" + proxied + "\nhermes\n}", blocked},
		"hermes alone":                 {"hermes", nothing},
		"hermes and a header":          {"encode\nhermes\nheader X-A b\nrewrite * /b{uri}\nvars a b\nlog_append a b", nothing},
		"hermes and what passes":       {"hermes_resume\nhermes_queue\nhermes\nhermes_approvals", nothing},
		"two handles":                  {"handle /v1/* {\nhermes\n}\nhandle {\n" + proxied + "\n}", nothing},
		"two handles, the other order": {"handle {\n" + proxied + "\n}\nhandle /v1/* {\nhermes\n}", nothing},
		"handle_path":                  {"handle_path /a/* {\nhermes\n}\nhandle {\n" + proxied + "\n}", nothing},
		"two sites":                    {"hermes\n}\nhttp://:8644 {\n" + proxied, nothing},
		"in an error route":            {proxied + "\nhandle_errors {\nhermes\n}", nothing},
		"resume after hermes":          {"route {\nhermes\nhermes_resume\n" + proxied + "\n}", "hermes_resume " + late},
		"queue after hermes":           {"route {\nhermes_resume\nhermes\nhermes_queue\n" + proxied + "\n}", "hermes_queue " + late},
		"queue in a nested route":      {"route {\nhermes\nroute /v1/* {\nhermes_queue\n" + proxied + "\n}\n" + proxied + "\n}", "hermes_queue " + late},
		"links to nowhere":             {"hermes {\napprovals link https://a.example/approve\n}\n" + proxied, noPage},
		"links to nowhere, one of two": {proxied + "\n}\nhttp://:8644 {\nhermes_proxy 127.0.0.1:8642 {\napprovals link https://a.example/approve\n}", noPage},
		"replies that are not kept":    {"hermes {\napprovals reply\n}\n" + proxied, noReply},
		"resume in another handle":     {"handle /a {\nhermes_resume\n" + proxied + "\n}\nhandle {\nhermes {\napprovals reply\n}\n" + proxied + "\n}", noReply},
		"itself":                       {"hermes\nreverse_proxy 127.0.0.1:8643", loop},
		"itself, by name":              {"hermes\nreverse_proxy localhost:8643", loop},
		"itself, by port":              {"hermes_proxy :8643", loop},
		"itself, one of two":           {"hermes\nreverse_proxy 127.0.0.1:8642 127.0.0.1:8643", loop},
		"itself, bound":                {"bind 127.0.0.1\nhermes\nreverse_proxy localhost:8643", loop},
		"itself, bound to another":     {"bind 192.0.2.5\nhermes\nreverse_proxy 192.0.2.5:8643", loop},
		"itself, a socket":             {"bind unix//tmp/a.sock|0222\nhermes\nreverse_proxy unix//tmp/a.sock", loop},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := checkCaddyfile(t, "http://:8643 {\n"+c.site+"\n}\n"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// What can be meant, but most likely is not, is one warning.
func TestWhatIsMostLikelyNotMeant(t *testing.T) {
	const full, buffers, loop, reply = "max_detached (", "response_buffers", "points back to its own server", "approvals reply does nothing"
	const anybody = "each visitor of the page may answer for all"
	for name, c := range map[string]struct{ site, want string }{
		"response_buffers":       {"hermes\nreverse_proxy 127.0.0.1:8642 {\nresponse_buffers 1MB\n}", buffers},
		"unlimited":              {"hermes_proxy 127.0.0.1:8642 {\nresponse_buffers unlimited\n}", buffers},
		"two of them":            {"hermes\nhandle /a {\nreverse_proxy 127.0.0.1:8642 {\nresponse_buffers 1MB\n}\n}\nhandle {\nreverse_proxy 127.0.0.1:8642 {\nresponse_buffers 1MB\n}\n}", buffers},
		"stall_timeout":          {"hermes_proxy 127.0.0.1:8642 {\nstall_timeout 20m\nidle_timeout 15m\n}", "stall_timeout (20m0s) is longer than idle_timeout (15m0s)"},
		"max_stream":             {"hermes_resume {\nmax_stream 128MiB\n}\nhermes_proxy 127.0.0.1:8642", "max_stream is larger than max_memory"},
		"keepalive":              {"hermes_proxy 127.0.0.1:8642 {\nkeepalive 1m\n}", "keepalive (1m0s) is a minute or longer"},
		"max_detached":           {"hermes_resume {\nmax_detached 8\n}\nhermes_queue\nhermes\n" + proxied, full + "8) of hermes_resume must be below runs (8)"},
		"runs":                   {"hermes_resume\nhermes_queue {\nruns 4\n}\nhermes\n" + proxied, full + "4) of hermes_resume must be below runs (4)"},
		"with two matchers":      {"hermes_resume @a {\nmax_detached 9\n}\nhermes_queue\nhermes\n" + proxied + "\n@a path /v1/*", full + "9)"},
		"a port as a host":       {"hermes\nreverse_proxy 8642", "connects to port 80 of a host named 8642: if you mean a port, write 127.0.0.1:8642"},
		"itself, for a path":     {"hermes\nhandle /v1/* {\nreverse_proxy 127.0.0.1:8643\n}\nhandle {\n" + proxied + "\n}", loop},
		"itself, of a host":      {"respond no\n}\nhttp://a.localhost:8643 {\nhermes\nreverse_proxy 127.0.0.1:8643", loop},
		"itself, rewritten":      {"hermes\nhandle /v1/* {\n" + proxied + "\n}\nhandle {\nrewrite * /v1{uri}\nreverse_proxy 127.0.0.1:8643\n}", loop},
		"a link, and no resume":  {"hermes_approvals\nhermes {\napprovals link https://a.example/hermes/approve\napprovals reply\n}\n" + proxied, reply},
		"a page that checks":     {"hermes_approvals {\nby {http.auth.user.id}\n}\nhermes {\napprovals link https://a.example/hermes/approve\n}\n" + proxied, anybody},
		"a page with a login":    {"hermes_approvals {\nlogin http://127.0.0.1:8080/\n}\nhermes {\napprovals link https://a.example/hermes/approve\n}\n" + proxied, anybody},
		"hermes twice":           {"hermes\nroute {\nhermes\n" + proxied + "\n}", "hermes twice"},
		"twice, for one path":    {"hermes\nhandle /a/* {\nhermes\n" + proxied + "\n}\n" + proxied, "hermes twice"},
		"twice, around a resume": {"route {\nhermes\nhermes_resume\nhermes\n" + proxied + "\n}", "hermes twice"},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := checkCaddyfile(t, "http://:8643 {\n"+c.site+"\n}\n")
			if err != nil || !strings.Contains(warnings, c.want) || strings.Count(warnings, "\n") > 0 {
				t.Errorf("%v, warnings %q, want %q", err, warnings, c.want)
			}
		})
	}
}

// What works, or may be meant, has neither.
func TestWhatMayBeMeant(t *testing.T) {
	for name, site := range map[string]string{
		"plain":                          "hermes\n" + proxied,
		"hermes_proxy":                   "hermes_proxy 127.0.0.1:8642",
		"everything":                     "hermes_resume\nhermes_queue\nhermes {\napprovals link https://a.example/hermes/approve\napprovals reply\n}\nhermes_approvals\n" + proxied,
		"a page that checks":             "hermes {\napprovals link https://a.example/hermes/approve\napprovals by {header.X-User}\n}\nhermes_approvals {\nby {http.auth.user.id}\n}\n" + proxied,
		"for one path":                   "hermes /v1/*\n" + proxied,
		"in a handle":                    "handle /v1/* {\nhermes\n" + proxied + "\n}\nhandle {\nfile_server\n}",
		"a handle in between":            "hermes\nhandle /v1/* {\n" + proxied + "\n}\nhandle {\nrespond 404\n}",
		"one handle, and a proxy behind": "handle /v1/* {\nhermes\n}\n" + proxied,
		"nested handles":                 "handle {\nhermes\nhandle /a/* {\nhandle /a/b {\n" + proxied + "\n}\n}\n}",
		"another proxy before":           "route {\nreverse_proxy /ui/* 127.0.0.1:3000\nhermes\n" + proxied + "\n}",
		"forward_auth before":            "route {\nforward_auth 127.0.0.1:9091 {\nuri /verify\n}\nhermes\n" + proxied + "\n}",
		"handle_response before":         "route {\nreverse_proxy 127.0.0.1:1 {\n@up status 2xx\nhandle_response @up {\nvars a b\n}\n}\nhermes\n" + proxied + "\n}",
		"in a handle_response":           "reverse_proxy 127.0.0.1:1 {\n@down status 5xx\nhandle_response @down {\nhermes\n" + proxied + "\n}\n}",
		"in an error route":              proxied + "\nhandle_errors 502 {\nhermes\nreverse_proxy 127.0.0.1:8652\n}",
		"its own error route":            "hermes\n" + proxied + "\nhandle_errors {\nrespond {err.status_code}\n}",
		"intercepted":                    "hermes\nintercept {\n@e status 500\nhandle_response @e {\nrespond oops\n}\n}\n" + proxied,
		"a snippet":                      "import repair\n" + proxied,
		"a named route, hermes in it":    "route {\ninvoke repair\n" + proxied + "\n}\n}\n&(repair) {\nhermes",
		"a named route, the agent in it": "hermes\ninvoke agent\n}\n&(agent) {\n" + proxied,
		"a named route of two sites":     "invoke agent\n}\n&(agent) {\nroute {\nhermes\n" + proxied + "\n}\n}\nhttp://:8644 {\ninvoke agent",
		"a named route that nobody uses": proxied + "\n}\n&(agent) {\nhermes",
		"a named route, used twice":      "route {\ninvoke repair\nrespond /x no\n}\nroute /a {\ninvoke repair\n" + proxied + "\n}\n" + proxied + "\n}\n&(repair) {\nhermes",
		"maintenance":                    "route {\nrespond \"we will be back\" 503\nhermes\n" + proxied + "\n}",
		"maintenance, aborted":           "route {\nabort\nhermes\n" + proxied + "\n}",
		"an answer of its own":           "hermes\nrespond ok",
		"files":                          "hermes\nfile_server",
		"php":                            "hermes\nphp_fastcgi 127.0.0.1:9000",
		"metrics":                        "route {\nhermes\nmetrics\n}",
		"queue for one path, first":      "route {\nhermes /a/*\nhermes_queue /b/*\nhermes /b/*\n" + proxied + "\n}",
		"hermes for two paths":           "hermes /a/*\nroute /b/* {\nhermes\n}\n" + proxied,
		"other paths":                    "route {\nhermes /a/*\nhermes_resume /b/*\n" + proxied + "\n}",
		"queue without hermes":           "hermes_queue\n" + proxied,
		"resume without hermes":          "hermes_resume\n" + proxied,
		"the page in another site":       "hermes {\napprovals link https://a.example/approve\n}\n" + proxied + "\n}\nhttp://:8644 {\nhermes_approvals",
		"the page in a handle":           "handle /x/* {\nhermes_approvals\n}\nhandle {\nhermes {\napprovals link https://a.example/approve\n}\n" + proxied + "\n}",
		"the page in an earlier site":    "hermes {\napprovals link https://a.example/approve\n}\n" + proxied + "\n}\nhttp://:8600 {\nhermes_approvals\n}\nhttp://:8601 {\nhermes_approvals",
		"resume outside":                 "hermes_resume\nhandle /v1/* {\nhermes {\napprovals reply\n}\n" + proxied + "\n}",
		"resume for one path":            "hermes_resume /v1/*\nhermes {\napprovals reply\n}\n" + proxied,
		"max_detached of another site":   "hermes_resume {\nmax_detached 50\n}\nhermes\n" + proxied + "\n}\nhttp://:8644 {\nhermes_queue\nhermes\n" + proxied,
		"nothing goes on":                "hermes_resume {\ndetach 0s\n}\nhermes_queue {\nruns 2\n}\nhermes\n" + proxied,
		"below":                          "hermes_resume {\nmax_detached 7\n}\nhermes_queue\nhermes\n" + proxied,
		"buffers of another proxy":       "handle /ui/* {\nreverse_proxy 127.0.0.1:3000 {\nresponse_buffers 1MB\n}\n}\nhandle {\nhermes\n" + proxied + "\n}",
		"request_buffers":                "hermes\nreverse_proxy 127.0.0.1:8642 {\nrequest_buffers 1MB\n}",
		"keepalive below a minute":       "hermes_proxy 127.0.0.1:8642 {\nkeepalive 59s\n}",
		"keepalive of the transport":     "hermes_proxy 127.0.0.1:8642 {\ntransport http {\nkeepalive 5m\n}\n}",
		"another site of this process":   "hermes\nreverse_proxy 127.0.0.1:8644\n}\nhttp://:8644 {\nhermes\n" + proxied,
		"the port of another address":    "bind 192.0.2.5\nhermes\nreverse_proxy 127.0.0.1:8643",
		"the port of another host":       "hermes\nreverse_proxy hermes:8643",
		"a container of that name":       "hermes\nreverse_proxy 8642:8080",
		"another socket":                 "bind unix//tmp/a.sock\nhermes\nreverse_proxy unix//tmp/b.sock",
		"its own port, not after hermes": "handle /self {\nreverse_proxy 127.0.0.1:8643\n}\nhandle {\nhermes\n" + proxied + "\n}",
		"a placeholder":                  "hermes\nreverse_proxy {http.request.header.X-Agent}:8643",
		"dynamic upstreams":              "hermes\nreverse_proxy {\ndynamic a agents 8642\n}",
	} {
		t.Run(name, func(t *testing.T) {
			if warnings, err := checkCaddyfile(t, "http://:8643 {\n"+site+"\n}\n"); err != nil || warnings != "" {
				t.Errorf("%v, warnings %q", err, warnings)
			}
		})
	}
}

// In JSON, routes have forms that no Caddyfile makes. What is wrong is found in whatever order Caddy
// provisions the servers, and in each of many configurations.
func TestRoutesInJSON(t *testing.T) {
	const agent = `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:8642"}]}`
	servers := func(all ...string) []byte {
		for i, s := range all {
			all[i] = `"s` + string(rune('a'+i)) + `":{"listen":["127.0.0.1:` + fmt.Sprint(1+i) + `"],` + s + `}`
		}
		return []byte(`{"apps":{"http":{"servers":{` + strings.Join(all, ",") + `}}}}`)
	}
	handle := func(handlers ...string) string { return `{"handle":[` + strings.Join(handlers, ",") + `]}` }
	within := func(routes ...string) string {
		return `{"handler":"subroute","routes":[` + strings.Join(routes, ",") + `]}`
	}
	is := func(name string) string { return `{"handler":"` + name + `"}` }
	routes := func(all ...string) string { return `"routes":[` + strings.Join(all, ",") + `]` }
	group := func(route string) string { return `{"group":"g",` + route[1:] }
	terminal := func(route string) string { return `{"terminal":true,` + route[1:] }
	match := func(route string) string { return `{"match":[{"path":["/a"]}],` + route[1:] }
	link := `{"handler":"hermes","approvals":{"link":"https://a.example/approve"}}`
	page := is("hermes_approvals")
	for name, c := range map[string]struct {
		config []byte
		want   string // of the error, "" for none
	}{
		"a route that has been provisioned": {servers(routes(handle(agent), handle(is("hermes"), agent))), "no request reaches hermes"},
		"the same with a matcher":           {servers(routes(match(handle(agent)), handle(is("hermes"), agent))), ""},
		"resume after hermes, nested":       {servers(routes(handle(is("hermes")), handle(within(handle(is("hermes_resume")), handle(agent))))), "hermes_resume comes after"},
		"resume before, a route of its own": {servers(routes(handle(is("hermes_resume")), handle(`{"handler":"hermes","approvals":{"reply":true}}`), handle(agent))), ""},
		"one of a group":                    {servers(routes(group(match(handle(is("hermes")))), group(handle(agent)))), "no handler after hermes answers"},
		"not of a group":                    {servers(routes(match(handle(is("hermes"))), handle(agent))), ""},
		"nothing after a terminal route":    {servers(routes(terminal(handle(is("hermes"))), handle(agent))), "no handler after hermes answers"},
		"behind a terminal route":           {servers(routes(terminal(handle(agent)), handle(is("hermes")))), ""}, // no request, but not for the proxy
		"an error route of a subroute":      {servers(routes(handle(`{"handler":"subroute","routes":[`+handle(`{"handler":"error"}`)+`],"errors":{"routes":[`+handle(is("hermes"))+`]}}`), handle(agent))), ""},
		"the page in another server":        {servers(routes(handle(link, agent)), routes(handle(page))), ""},
		"the page in a route before":        {servers(routes(match(handle(page)), handle(link, agent))), ""},
		"the page in an error route":        {servers(routes(handle(link, agent)), routes(handle(agent))+`,"errors":{"routes":[`+handle(page)+`]}`), ""},
		"no page in two servers":            {servers(routes(handle(link, agent)), routes(handle(agent))), "nothing serves the pages"},
		"a handler of a plugin":             {servers(routes(handle(is("hermes"), is("hermes_test")))), ""},
		"wrong in one of three":             {servers(routes(handle(is("hermes"), agent)), routes(handle(agent)), routes(handle(is("hermes")))), "no handler after hermes answers"},
	} {
		for range 5 { // the order of servers is random
			warnings, err := checked(t, c.config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(warnings) > 0 {
				t.Errorf("%s: %v, warnings %q, want %q", name, err, warnings, c.want)
			}
		}
	}
}

// A grace period that ends before drain_timeout is a warning.
func TestGracePeriods(t *testing.T) {
	for _, c := range []struct {
		app, option string
		warns       bool
	}{
		{`"grace_period":"5s"`, `"drain_timeout":"30s"`, true},
		{`"grace_period":"5s"`, `"progress":"bare"`, true}, // the default is 10s
		{`"grace_period":"30s"`, `"drain_timeout":"10s"`, false},
		{`"grace_period":"125s"`, `"drain_timeout":"120s"`, false}, // as the container of docs/install.md
		{`"shutdown_delay":"1m","grace_period":"5s"`, `"drain_timeout":"10s"`, false},
		{`"grace_period":0`, `"drain_timeout":"1h"`, false}, // it is without end
	} {
		warnings, err := checked(t, bytes.Replace(jsonConfig(c.option), []byte(`"servers"`), []byte(c.app+`,"servers"`), 1))
		if warned := strings.HasPrefix(strings.Join(warnings, "\n"), "grace_period is too short for drain_timeout"); err != nil || warned != c.warns {
			t.Errorf("%s, %s: %v, warnings %q", c.app, c.option, err, warnings)
		}
	}
}
