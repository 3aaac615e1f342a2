package caddymodule

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

// A name decides whose subdirective it is. If reverse_proxy ever gets one that
// hermes has, hermes_proxy has to tell them apart in another way.
func TestNoOptionIsOneOfReverseProxys(t *testing.T) {
	for _, name := range ofReverseProxy { // all: TestErrorsListTheSubdirectivesOfReverseProxy
		if options.Lookup(name) != nil {
			t.Errorf("both have %s", name)
		}
	}
}

// The error of a subdirective that is not known lists all of reverse_proxy's, as the source
// of the Caddy that is built in has them.
func TestErrorsListTheSubdirectivesOfReverseProxy(t *testing.T) {
	file, _ := runtime.FuncForPC(reflect.ValueOf((*reverseproxy.Handler).UnmarshalCaddyfile).Pointer()).FileLine(0)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("Caddy's source is not here: %v", err)
	}
	_, body, _ := strings.Cut(string(source), "\nfunc (h *Handler) UnmarshalCaddyfile(")
	body, _, _ = strings.Cut(body, "\n}\n")
	_, body, _ = strings.Cut(body, "NextBlock(0)")
	known := slices.Clone(ofReverseProxy)
	for _, m := range regexp.MustCompile(`(?m)^\t\tcase ("[a-z_]+"(?:, "[a-z_]+")*):$`).FindAllStringSubmatch(body, -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(m[1], `"`, ""), ", ") {
			i := slices.Index(known, name)
			if i < 0 && name != "health_path" { // deprecated
				t.Errorf("%s is not listed", name)
			} else if i >= 0 {
				known = slices.Delete(known, i, i+1)
			}
		}
	}
	if len(known) > 0 {
		t.Errorf("reverse_proxy has no %q", known)
	}
}

// hermesLines gives every option once.
var hermesLines = []string{
	"max_frame 2MiB", "imitations trust", "reasoning drop", "history keep", "memory off", "max_request 20MB",
	"parallel_window 75ms", `tool "🛰️" satellite`, "tool 🪐 orrery", "progress unnamed", "status_line on", "cards on", "tool_details arguments",
	"approvals link https://hermes.example.com/hermes/approve/ text", "approvals reply", "approvals by {http.request.header.X-User}",
	"approvals replicas http://a:8643 http://b:8643 0123456789abcdef0123456789abcdef", "approval_timeout 2m",
	"identity {http.auth.user.id}", "identity {http.auth.user.id} by session", "identity {http.request.header.X-User} by prompt",
	"done_grace 7s", "error_finish inline", "zero_usage error", "empty_answer pass", "first_byte_timeout 1m", "idle_timeout 5m",
	"stall_timeout 30s", "keepalive 20s", "keepalive_form comment", "drain_timeout 25s", "announce off",
}

// proxyLines uses what is hard in the subdirectives of reverse_proxy: blocks,
// blocks in blocks, matchers, arguments and fields that are named like options.
var proxyLines = []string{
	"to 127.0.0.1:8644 127.0.0.1:8645-8646",
	"lb_policy header progress {\n\tfallback first\n}",
	"lb_retries 2",
	"lb_retry_match {\n\tmethod POST\n\tpath /keepalive\n}",
	"health_uri /health",
	"health_headers {\n\tkeepalive yes\n\thistory keep heal\n}",
	"header_up X-Progress progress",
	"header_up keepalive tool",
	"header_down -Server",
	"flush_interval -1",
	"transport http {\n\tkeepalive 4s\n\tkeepalive_idle_conns 3\n\tdial_timeout 1s\n\tresolvers 127.0.0.1\n}",
	"@progress {\n\tstatus 5xx\n\theader history *\n}",
	"handle_response @progress {\n\theader keepalive 1\n\thandle /tool {\n\t\trespond \"tool\" 502\n\t}\n}",
	"handle_response {\n\tcopy_response_headers {\n\t\tinclude progress\n\t}\n\tcopy_response\n}",
	"verbose_logs",
}

// What is not of hermes reaches reverse_proxy as if it stood there, wherever
// the lines of hermes are among its own; and the other way round.
func TestHermesProxyIsHermesAndReverseProxy(t *testing.T) {
	wantHermes := adaptedHandlers(t, "hermes {\n"+strings.Join(hermesLines, "\n")+"\n}")[0]
	wantProxy := adaptedHandlers(t, "reverse_proxy 127.0.0.1:8642 127.0.0.1:8643 {\n"+strings.Join(proxyLines, "\n")+"\n}")[0]
	for name, lines := range map[string][]string{
		"hermes first":                  slices.Concat(hermesLines, proxyLines),
		"hermes last":                   slices.Concat(proxyLines, hermesLines),
		"in turns":                      inTurns(hermesLines, proxyLines),
		"in turns, reverse_proxy first": inTurns(proxyLines, hermesLines),
	} {
		t.Run(name, func(t *testing.T) {
			got := adaptedHandlers(t, "hermes_proxy 127.0.0.1:8642 127.0.0.1:8643 {\n"+strings.Join(lines, "\n")+"\n}")
			if len(got) != 2 {
				t.Fatalf("%d handlers, want 2", len(got))
			}
			if !reflect.DeepEqual(got[0], wantHermes) {
				t.Errorf("hermes\n%v\nwant\n%v", got[0], wantHermes)
			}
			if !reflect.DeepEqual(got[1], wantProxy) {
				t.Errorf("reverse_proxy\n%v\nwant\n%v", got[1], wantProxy)
			}
		})
	}
}

func decodeJSON(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// adaptedHandlers adapts a directive in a site and returns its handlers.
func adaptedHandlers(t *testing.T, directive string) []map[string]any {
	t.Helper()
	out, err := adapt(":8643 {\n" + directive + "\n}\n")
	if err != nil {
		t.Fatalf("%v in\n%s", err, directive)
	}
	return handlers(t, out)
}

// inTurns takes one of a, one of b, one of a and so on.
func inTurns(a, b []string) (all []string) {
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			all = append(all, a[i])
		}
		if i < len(b) {
			all = append(all, b[i])
		}
	}
	return all
}
