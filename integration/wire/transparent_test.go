package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// corpus has streams of other providers, in place: they are not part of the project.
var corpus = harness.Path("../shared/corpus")

// A stream of another provider that ends well passes byte for byte; one that only lacks [DONE] gains
// it. So do the web platform tests' streams, which have every oddity of the format.
func TestOtherProvidersPassByteForByte(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(corpus, "index.json"))
	if err != nil {
		t.Skipf("no corpus of other providers' streams: %v", err)
	}
	var entries []struct{ File, API string }
	if err := json.Unmarshal(index, &entries); err != nil {
		t.Fatal(err)
	}
	odd, _ := filepath.Glob(filepath.Join(corpus, "wpt-eventsource/streams/*.sse"))
	for _, file := range odd {
		name, _ := filepath.Rel(corpus, file)
		entries = append(entries, struct{ File, API string }{name, "any"})
	}
	paths := map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "completions": "/v1/completions", "any": "/events"}
	scripts, bodies := upstream.Router{}, map[string]string{}
	for _, e := range entries {
		bodies[e.File] = harness.ReadFile(t, filepath.Join(corpus, e.File))
		scripts[e.File] = stream([]byte(bodies[e.File]), upstream.AtRandom(7))
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)))
	n := 0
	for _, e := range entries {
		path := paths[e.API]
		if path == "" {
			continue
		}
		n++
		t.Run(e.File, func(t *testing.T) {
			want := bodies[e.File]
			if e.API == "chat" && !strings.Contains(want, "data: [DONE]") {
				want += "data: [DONE]\n\n"
			}
			if got := c.Of(t).Post(path, "X-Play", e.File).All(); got != want {
				t.Errorf("it differs at byte %d:\n%s", differs(got, want), around(got, differs(got, want)))
			}
		})
	}
	if n < 100 || len(odd) == 0 {
		t.Errorf("only %d streams of a known kind, and %d odd ones", n, len(odd))
	}
}

// stream answers with an event stream in pieces.
func stream(b []byte, in upstream.Cutter) upstream.Script {
	parts := in.Cut(b)
	return func(x *upstream.Exchange) {
		x.Events()
		for _, p := range parts {
			x.Chunk(p)
		}
		x.End()
	}
}

func differs(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func around(s string, at int) string { return s[max(0, at-200):min(len(s), at+200)] }

// Recordings that need no repair pass byte for byte, in every generation.
func TestRecordingsPassByteForByte(t *testing.T) {
	modern := func(r hermes.Recording) bool { return hermes.Chats(r) && !r.Legacy() }
	const event = "event: hermes.tool.progress\n"
	for _, of := range []struct {
		name, but string // of the frames that begin so
		options   sidecar.Options
		keep      func(r hermes.Recording) bool
	}{
		{"the other streams", "", nil, func(r hermes.Recording) bool { return !hermes.Chats(r) }},
		{"length, error object and all", "", sidecar.Still, func(r hermes.Recording) bool {
			return hermes.Chats(r) && strings.Contains(string(r.Body), `"finish_reason": "length"`)
		}},
		{"modern ones in the form bare", "", sidecar.Still.With(sidecar.Options{"progress": "bare", "keepalive_form": "comment"}), func(r hermes.Recording) bool {
			return modern(r) && strings.Contains(r.Scenario, "tool") && r.Scenario != "crash_in_tool" || r.Scenario == "labels" && !r.Legacy()
		}},
		{"modern ones beside their tool events", event, sidecar.Still.With(sidecar.Options{"zero_usage": "pass", "empty_answer": "pass", "keepalive_form": "comment"}), func(r hermes.Recording) bool {
			changes := regexp.MustCompile(`crash|fail|^err|^zero|^model_imitates$|^think_tags$`).MatchString(r.Scenario)
			return modern(r) && !changes && !regexp.MustCompile("event: (hermes.status|approval.request)\n").Match(r.Body)
		}},
	} {
		all := hermes.Recordings(t, of.keep)
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), of.options)))
		for _, r := range all {
			t.Run(of.name+" "+r.String(), func(t *testing.T) {
				got, want := c.Of(t).Post(r.Path(), "X-Play", r.String()).All(), string(r.Body)
				if of.but != "" {
					got, want = without(got, of.but), without(want, of.but)
				}
				if got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A stream that is none of ours breaks off as it broke off.
func TestForeignStreamsBreakOffAsTheyDo(t *testing.T) {
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Frame("event: response.created", `data: {"type": "response.created"}`)
		x.Torn([]byte("event: resp"))
	}), nil)))
	b, err := io.ReadAll(c.Post("/v1/responses").Body)
	if err == nil || strings.Contains(string(b), "DONE") || strings.Contains(string(b), "error") {
		t.Errorf("body %q, error %v; want upstream's abort", b, err)
	}
}

// Any path becomes active with the first chunk of a chat completion.
func TestChunksOfAChatAreRepairedOnAnyPath(t *testing.T) {
	r := hermes.Recorded(t, "g0-v0.8.0/one_tool")
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Replay(r, upstream.ByFrame)), sidecar.Still)))
	want := c.Chat().All()
	for _, path := range []string{"/api/agents/1/stream", "/proxy/v1/chat/completions", "/v1/chat/completions?x=1"} {
		if got := c.Post(path).All(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
	if strings.Contains(want, "`") || !strings.Contains(want, "hermes.tool.progress") {
		t.Errorf("not repaired:\n%s", want)
	}
}

// What is no event stream with status 200 passes: the recorded JSON answers, but
// for those of agents that failed (TestAnswersThatAreNotStreamed).
func TestJSONAnswersPassByteForByte(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(hermes.Captures, "*", "*.http"))
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	scripts := upstream.Router{}
	for _, f := range files {
		scripts[f] = func(x *upstream.Exchange) { x.Raw(asCRLF(t, f)) }
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), nil)))
	for _, f := range files {
		want, err := http.ReadResponse(bufio.NewReader(strings.NewReader(asCRLF(t, f))), nil)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		body, _ := io.ReadAll(want.Body)
		if strings.HasSuffix(f, "nonstream.failed_result.http") && want.StatusCode == http.StatusOK {
			continue
		}
		r := c.Play(f)
		if got := r.All(); got != string(body) || r.StatusCode != want.StatusCode || r.ContentLength != want.ContentLength {
			t.Errorf("%s: %s, %d bytes: %q; want %s, %q", f, r.Status, r.ContentLength, harness.Clip(got), want.Status, harness.Clip(string(body)))
		}
		for name := range want.Header {
			if r.Header.Get(name) != want.Header.Get(name) {
				t.Errorf("%s: %s: %q, want %q", f, name, r.Header.Get(name), want.Header.Get(name))
			}
		}
	}
}

// asCRLF is a recorded answer with the line ends of HTTP in its header.
func asCRLF(t testing.TB, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	s := strings.ReplaceAll(string(b), "\r\n", "\n")
	head, body, _ := strings.Cut(s, "\n\n")
	return strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
}

// Answers that are not acted on: they have what a repair would change, and keep it.
func TestResponsesThatAreNotActedOn(t *testing.T) {
	sse := string(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool").Body)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, sse)
	z.Close()
	plain := func(status, body string, header ...string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Header(status, append(header, fmt.Sprintf("Content-Length: %d", len(body)))...)
			x.Raw(body)
		}
	}
	scripts := upstream.Router{
		"gzip":       plain("200 OK", zipped.String(), "Content-Type: text/event-stream", "Content-Encoding: gzip"),
		"status 500": plain("500 Internal Server Error", sse, "Content-Type: text/event-stream"),
		"status 201": plain("201 Created", sse, "Content-Type: text/event-stream"),
		"text/plain": plain("200 OK", sse, "Content-Type: text/plain"),
		"no type":    plain("200 OK", sse, "Content-Type: application/octet-stream"),
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), nil)))
	for name := range scripts {
		want := sse
		if name == "gzip" {
			want = zipped.String()
		}
		r := c.Play(name)
		if got := r.All(); got != want || r.ContentLength != int64(len(want)) {
			t.Errorf("%s: %d bytes %q", name, r.ContentLength, harness.Clip(got))
		}
		if name == "gzip" && r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("gzip: Content-Encoding %q", r.Header.Get("Content-Encoding"))
		}
	}
}

// Parameters of the media type and its case do not matter.
func TestMediaTypeParametersDoNotMatter(t *testing.T) {
	body := hermes.Recorded(t, "g0-v0.8.0/one_tool").Body
	for _, mime := range []string{"text/event-stream; charset=utf-8", "Text/Event-Stream", "text/event-stream;charset=UTF-8"} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: "+mime, "Transfer-Encoding: chunked")
			x.Chunk(body)
			x.End()
		}), nil)))
		r := c.Chat()
		if got := r.All(); !strings.Contains(got, "hermes.tool.progress") {
			t.Errorf("%s: not repaired", mime)
		}
		if r.Header.Get("Content-Type") != mime {
			t.Errorf("Content-Type %q, want %q", r.Header.Get("Content-Type"), mime)
		}
	}
}

// The request and response headers of a stream that is acted on.
func TestHeaders(t *testing.T) {
	body := hermes.Recorded(t, "g0-v0.8.0/one_tool").Body
	scripts := upstream.Router{
		"none": func(x *upstream.Exchange) {
			x.Header("200 OK", "Content-Type: text/event-stream", fmt.Sprintf("Content-Length: %d", len(body)), "X-Hermes-Session-Id: s1")
			x.Raw(string(body))
		},
		"both": func(x *upstream.Exchange) {
			x.Events("X-Accel-Buffering: yes", "Cache-Control: no-store")
			x.Chunk(body)
			x.End()
		},
	}
	up := upstream.New(t, scripts.Play)
	c := client.New(t, sidecar.URL(sidecar.Serve(t, up, nil)))
	r := c.Play("none", "Accept-Encoding", "gzip, br")
	if r.Answer(); r.ContentLength != -1 || r.Header.Get("X-Accel-Buffering") != "no" || r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("X-Hermes-Session-Id") != "s1" {
		t.Errorf("length %d, header %v", r.ContentLength, r.Header)
	}
	r = c.Play("both")
	if r.Answer(); r.Header.Get("X-Accel-Buffering") != "yes" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", r.Header)
	}
	for _, req := range up.Requests() {
		if got := req.Header.Values("Accept-Encoding"); len(got) != 1 || got[0] != "identity" {
			t.Errorf("upstream was asked for %q", got)
		}
	}
}

// HEAD has a header and no body.
func TestHEAD(t *testing.T) {
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Header("200 OK", "Content-Type: text/event-stream", "Content-Length: 1234")
	}), nil)))
	res := c.Send(http.MethodHead, "/v1/chat/completions", nil)
	if res.StatusCode != 200 || res.ContentLength != 1234 {
		t.Errorf("%s, length %d", res.Status, res.ContentLength)
	}
}

// Early hints come through before the final header, and do not replace it.
func TestEarlyHints(t *testing.T) {
	for _, body := range []string{string(hermes.Recorded(t, "g0-v0.8.0/one_tool").Body), ""} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
			x.Header("103 Early Hints", "Link: </style.css>; rel=preload")
			if body == "" {
				upstream.AsJSON("200 OK", `{"ok":true}`)(x)
				return
			}
			stream([]byte(body), upstream.Whole)(x)
		}), nil)))
		var hints []int
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if h.Get("Link") != "" {
					hints = append(hints, code)
				}
				return nil
			},
		})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/chat/completions", strings.NewReader(client.Question))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if len(hints) != 1 || hints[0] != 103 || res.StatusCode != 200 || err != nil {
			t.Errorf("hints %v, %s, %v", hints, res.Status, err)
		}
		if body == "" && string(got) != `{"ok":true}` || body != "" && !strings.Contains(string(got), "hermes.tool.progress") {
			t.Errorf("body %q", got)
		}
	}
}

// Trailers arrive after a stream, foreign or repaired.
func TestTrailers(t *testing.T) {
	body := hermes.Recorded(t, "g0-v0.8.0/one_tool").Body
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events("Trailer: X-Checksum")
		x.Chunk(body)
		x.Raw("0\r\nX-Checksum: abc\r\n\r\n")
	}), nil)))
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		r := c.Post(path)
		r.All()
		if got := r.Trailer.Get("X-Checksum"); got != "abc" {
			t.Errorf("%s: trailer %q", path, got)
		}
	}
}

// An upgraded connection carries bytes both ways.
func TestUpgrade(t *testing.T) {
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Header("101 Switching Protocols", "Connection: Upgrade", "Upgrade: echo")
		io.Copy(x.Conn, x.In)
	}), nil)
	conn := client.Dial(t, base)
	fmt.Fprintf(conn, "GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v", res, err)
	}
	for _, ping := range []string{"hello\n", "data: {\"object\": \"chat.completion.chunk\"}\n"} {
		io.WriteString(conn, ping)
		if got, err := in.ReadString('\n'); got != ping || err != nil {
			t.Errorf("echo %q, %v", got, err)
		}
	}
}

// wholes reads the recorded answers that were not streamed, as scripts.
func wholes(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(hermes.Captures, "*", "nonstream.*.http"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, p := range paths {
		all[filepath.Base(filepath.Dir(p))+"/"+strings.TrimSuffix(filepath.Base(p), ".http")] = []byte(asCRLF(t, p))
	}
	return all
}

// Answers that were not streamed: what a legacy agent's failure is for certain
// is answered as modern Hermes answers it.
func TestAnswersThatAreNotStreamed(t *testing.T) {
	all := wholes(t)
	scripts := upstream.Router{}
	for name, b := range all {
		scripts[name] = func(x *upstream.Exchange) { x.Raw(string(b)) }
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"zero_usage": "pass"})))
	failures := 0
	for name, b := range all {
		if !strings.HasSuffix(name, "nonstream.failed_result") || bytes.HasPrefix(b, []byte("HTTP/1.1 502")) {
			continue // it passes: TestJSONAnswersPassByteForByte
		}
		failures++
		t.Run(name, func(t *testing.T) {
			head, _, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			r := c.Of(t).Play(name)
			body := r.All()
			var got struct {
				Error struct {
					strict.APIError
					Hermes strict.HermesBlock
				}
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%v in %q", err, body)
			}
			if e := got.Error; r.StatusCode != http.StatusBadGateway || e.Code != "agent_incomplete" || e.Type != "server_error" || !e.Hermes.Failed ||
				e.Message != "API call failed after 3 retries: Error code: 401 - invalid api key" {
				t.Errorf("%s\n%s", r.Status, body)
			}
			if had := bytes.Contains(head, []byte("Session-Id")); had != (r.Header.Get("X-Hermes-Session-Id") != "") || r.Header.Get("X-Hermes-Completed") != "false" || r.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("header %v", r.Header)
			}
		})
	}
	if failures < 3 {
		t.Errorf("saw %d failures only", failures)
	}
}

// Text with a usage of zero passes with a warning where it is not streamed, for a
// status would lose it. Real usage in such an answer decides about streams.
func TestUsageIsKnownAcrossStreamsAndAnswers(t *testing.T) {
	plain := string(wholes(t)["g0-v0.8.0/nonstream.plain"])
	_, body, _ := strings.Cut(plain, "\r\n\r\n")
	zero := strings.Replace(body, "1234, \"completion_tokens\": 56, \"total_tokens\": 1290", "0, \"completion_tokens\": 0, \"total_tokens\": 0", 1)
	scripts := upstream.Router{
		"zero": upstream.AsJSON("200 OK", zero), "plain": upstream.AsJSON("200 OK", body),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_after_text"), upstream.Whole),
	}
	base, s := sidecar.Serve(t, upstream.New(t, scripts.Play), nil)
	c := client.New(t, base)
	c.Play("crash").Answer().CheckGood(t)
	c.Play("plain").All()
	c.Play("crash").Answer().CheckError(t, "agent_crashed")
	if got := c.Play("zero").All(); got != zero {
		t.Errorf("got %s", got)
	}
	if !s.Await("answer passed with text") {
		t.Error("it may have been a failure: want a warning")
	}
}
