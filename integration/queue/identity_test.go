package queue

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"golang.org/x/net/http2"
)

// The fields in which identity reaches Hermes.
const (
	keyField     = "X-Hermes-Session-Key"
	sessionField = "X-Hermes-Session-Id"
)

// raw sends a request by hand, and returns the status and what the agent got of it.
func (p *place) raw(t *testing.T, request string) (status int, got http.Header) {
	t.Helper()
	before := len(p.Requests())
	c := client.Dial(t, p.base)
	defer c.Close()
	io.WriteString(c, request)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	if all := p.Requests(); len(all) > before {
		got = all[before].Header
	}
	return res.StatusCode, got
}

// as returns the values of all fields of a header that some server could take for that one.
func as(h http.Header, name string) (values []string) {
	for n, v := range h {
		if strings.EqualFold(strings.ReplaceAll(n, "_", "-"), name) {
			values = append(values, v...)
		}
	}
	return values
}

// smuggled are ways to write a field with the value evil.
var smuggled = map[string]string{
	"plain":              "%s: evil\r\n",
	"twice":              "%s: evil\r\n%[1]s: evil\r\n",
	"lower":              "%[2]s: evil\r\n",
	"upper and lower":    "%[2]s: evil\r\n%[3]s: evil\r\n",
	"low lines":          "%[4]s: evil\r\n",
	"a low line":         "%[5]s: evil\r\n",
	"named":              "Connection: %s\r\n%[1]s: evil\r\n",
	"named, lower":       "Connection: close, %[2]s\r\n%[2]s: evil\r\n",
	"named twice":        "Connection: %s\r\nConnection: keep-alive, %[2]s ,\r\n%[1]s: evil\r\n",
	"named, low lines":   "Connection: %[4]s\r\n%[4]s: evil\r\n",
	"named, no field":    "Connection: %s\r\n",
	"keep-alive":         "Keep-Alive: %s\r\n%[1]s: evil\r\n",
	"folded":             "X-A: b\r\n %s: evil\r\n",
	"folded value":       "%s:\r\n evil\r\n",
	"a space":            "%s : evil\r\n",
	"a tab":              "%s\t: evil\r\n",
	"a list":             "%s: ann, evil\r\n",
	"bytes":              "%s: ann\x01evil\r\n",
	"CR":                 "X-A: b\r%s: evil\r\n",
	"NUL":                "X-A: b\x00\n%s: evil\r\n",
	"LF alone":           "X-A: b\n%s: evil\r\n",
	"long":               "%s: evil" + strings.Repeat("x", 5000) + "\r\n",
	"many":               strings.Repeat("%[1]s: evil\r\n", 50),
	"empty, and another": "%[1]s:\r\n%[2]s: evil\r\n",
	"forwarded":          "X-Forwarded-%s: x\r\n%[1]s: evil\r\n",
	"upgrade":            "Connection: Upgrade, %s\r\nUpgrade: websocket\r\n%[1]s: evil\r\n",
}

func smuggle(form, field string) string {
	lower := strings.ToLower(field)
	low := strings.ReplaceAll(field, "-", "_")
	// Not every form has all of them.
	text := fmt.Sprintf(form+"%.0[1]s%.0[2]s%.0[3]s%.0[4]s%.0[5]s", field, lower, strings.ToUpper(field), low, strings.Replace(field, "-", "_", 1))
	return text
}

// TestNoValueOfTheClientsPasses: however a client writes a field that identity sets, the agent gets its
// user's value once, or none if there is no user.
func TestNoValueOfTheClientsPasses(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 0), site{queue: []string{"runs 1000"}, hermes: []string{"identity {header.X-User}", "identity {header.X-User} by session"}})
	paths := map[string]string{
		chat.path:                  fmt.Sprintf(chat.body, `"hi"`),
		responses.path:             fmt.Sprintf(responses.body, `"hi"`),
		runs.path:                  fmt.Sprintf(runs.body, `"hi"`),
		session.path:               fmt.Sprintf(session.body, `"hi"`),
		"/v1/chat/completions?x=y": fmt.Sprintf(whole.body, `"hi"`),
	}
	for name, form := range smuggled {
		for path, body := range paths {
			for _, user := range []string{"ann", ""} {
				for _, field := range []string{keyField, sessionField} {
					status, got := p.raw(t, "POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-User: "+user+"\r\n"+smuggle(form, field)+
						fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
					if got == nil {
						if status < 400 && status != 0 {
							t.Errorf("%s: %d, and the agent has heard nothing", name, status)
						}
						continue
					}
					if v := as(got, keyField); user == "" && len(v) > 0 || user != "" && (len(v) != 1 || v[0] != "ann") {
						t.Errorf("%s, user %q, %s: the key is %q", name, user, path, v)
					}
					v := as(got, sessionField)
					for _, v := range v {
						if strings.Contains(v, "evil") {
							t.Errorf("%s, user %q, %s: the session is %q", name, user, path, v)
						}
					}
					if len(v) > 1 || user == "" && len(v) > 0 || path == chat.path && user != "" && len(v) != 1 {
						t.Errorf("%s, user %q, %s: the sessions are %q", name, user, path, v)
					}
				}
			}
		}
	}
}

// TestNoTrailerOfTheClientsPasses: nor does a trailer, announced or not.
func TestNoTrailerOfTheClientsPasses(t *testing.T) {
	t.Parallel()
	p := newPlaceOf(t, hermes.New(t, 0), site{hermes: []string{"identity {header.X-User}", "identity {header.X-User} by session"}})
	body := fmt.Sprintf(chat.body, `"hi"`)
	got := make(chan http.Header, 1)
	p.Answer("trailers", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer.Clone()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	body = strings.Replace(body, "hi", "trailers", 1)
	for _, announced := range []string{"", "Trailer: " + keyField + ", " + sessionField + "\r\n", "Trailer: x-hermes-session-key\r\n", "Trailer: X_Hermes_Session_Key, X-Other\r\n"} {
		for _, user := range []string{"X-User: ann\r\n", ""} {
			c := client.Dial(t, p.base)
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%s%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s: evil\r\n%s: evil\r\nx_hermes_session_key: evil\r\nX-Other: y\r\n\r\n",
				chat.path, user, announced, len(body), body, keyField, sessionField)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				continue
			}
			res.Body.Close()
			c.Close()
			if res.StatusCode >= 400 {
				continue
			}
			trailer := <-got
			if v := append(as(trailer, keyField), as(trailer, sessionField)...); strings.Contains(strings.Join(v, ""), "evil") {
				t.Errorf("%q: the trailer is %v", announced, trailer)
			}
		}
	}
}

// TestOverHTTP2: the same of fields over HTTP/2, whose names are written in lower case.
func TestOverHTTP2(t *testing.T) {
	t.Parallel()
	a := hermes.New(t, 0)
	p := newPlaceOf(t, a, site{hermes: []string{"identity {header.X-User}", "identity {header.X-User} by session"}})
	p.loadText(strings.Replace(p.caddyfile(p.caddy.Admin, p.lines), "servers {", "servers {\n\t\tprotocols h1 h2c", 1))
	transport := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	q := *p
	q.http = &http.Client{Transport: transport}
	for i, header := range [][]string{{keyField, "evil"}, {"x_hermes_session_key", "evil"}, {sessionField, "evil"}, {"X_Hermes-Session_Id", "evil"}} {
		prompt := fmt.Sprintf("hello-%d", i)
		r := q.ask(chat, "key-1", prompt, append(header, "X-User", "ann")...)
		r.good(chat)
		if r.reply.ProtoMajor != 2 {
			t.Fatalf("spoken is %s", r.reply.Proto)
		}
		got := p.Of(t, prompt).Header
		if v := as(got, keyField); len(v) != 1 || v[0] != "ann" {
			t.Errorf("%q: the key is %q", header, v)
		}
		if v := as(got, sessionField); len(v) != 1 || strings.Contains(v[0], "evil") {
			t.Errorf("%q: the session is %q", header, v)
		}
	}
}
