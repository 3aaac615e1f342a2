package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
)

// peersVariable names the directory that the peers are installed in, each in one of
// its own, or are to be.
const peersVariable = "HERMES_BENCH_PEERS"

// peerStart bounds the start of a peer. LiteLLM takes half a minute on a busy core.
const peerStart = 2 * time.Minute

// peerSilence is how long a client waits for the end of a stream.
const peerSilence = 10 * time.Second

// A peerFact is what is said of a peer, and measured.
type peerFact struct {
	g0, g3, g4, comments string // what is left of a stream, see kept
	reset, torn, early   string // how a stream ends that upstream breaks off, see ending
	crash, failed        string // the same, where Hermes ends it after a crash: 0.8 and 0.20
}

// untouched is what passes bytes on and knows nothing of them.
var untouched = peerFact{
	g0: "bytes", g3: "bytes", g4: "bytes", comments: "bytes",
	reset: "aborted", torn: "aborted", early: "nothing",
	crash: "stop, [DONE]", failed: "an error, error, [DONE]",
}

// peerFacts are by the name without its version.
var peerFacts = map[string]peerFact{
	"nginx": untouched,
	"Envoy": untouched,
	// A reset is a clean end of the body for its client.
	"Portkey gateway": {
		g0: "bytes", g3: "bytes", g4: "bytes", comments: "bytes",
		reset: "nothing", torn: "nothing", early: "nothing",
		crash: "stop, [DONE]", failed: "an error, error, [DONE]",
	},
	// It parses each chunk and makes its own; it says stop for an agent that did not.
	"LiteLLM": {
		g0: "content, end", g3: "content, no event names, no tools, end", g4: "content, reasoning, end", comments: "content, no comments, end",
		reset: "an error", torn: "an error", early: "stop, [DONE]",
		crash: "stop, [DONE]", failed: "an error",
	},
}

// Every peer passes the text of a stream on, and does with everything else what is
// said of it.
func TestPeers(t *testing.T) {
	base := os.Getenv(peersVariable)
	can, cannot := peers()
	for name, why := range cannot {
		t.Logf("%s: %s", name, why)
	}
	for _, p := range can {
		t.Run(p.slug(), func(t *testing.T) {
			dir := ""
			if p.install != nil {
				if base == "" {
					t.Skip(peersVariable + " names no directory to install it in")
				}
				dir = filepath.Join(base, p.slug())
				if err := p.install(dir); err != nil {
					t.Fatal(err)
				}
			}
			checkPeer(t, p, dir)
		})
	}
}

func checkPeer(t *testing.T, p peer, dir string) {
	up := httptest.NewServer(http.HandlerFunc(peerHermes))
	defer up.Close()
	c := startPeer(t, p, dir, up.Listener.Addr().String())
	got := peerFact{
		g0: kept(t, c, "g0-v0.8.0/one_tool"), g3: kept(t, c, "g3-v0.20.3/one_tool"),
		g4: kept(t, c, "g4-transcribed/reasoning"), comments: kept(t, c, "comments"),
		reset: c.ask(t, "reset").ending(), torn: c.ask(t, "torn").ending(), early: c.ask(t, "early").ending(),
		crash: c.ask(t, "g0-v0.8.0/crash_after_text").ending(), failed: c.ask(t, "g3-v0.20.3/crash_after_text").ending(),
	}
	want, known := peerFacts[strings.TrimRight(p.name, " .0123456789")]
	if !known {
		t.Errorf("nothing is known of %s:\n%+v", p.name, got)
	} else if got != want {
		t.Errorf("%s:\ngot  %+v\nwant %+v", p.name, got, want)
	}
}

// peerCaptures is where the recordings of real Hermes servers are.
const peerCaptures = "../../testdata/captures"

// peerScript is the body of a stream, in frames.
func peerScript(name string) ([]byte, error) {
	const envelope = `{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent", "choices": [{"index": 0, "delta": %s, "finish_reason": %s}]%s}`
	chunk := func(delta, finish, more string) string {
		return "data: " + fmt.Sprintf(envelope, delta, finish, more) + "\n\n"
	}
	begun := chunk(`{"role": "assistant"}`, "null", "") + chunk(`{"content": "Hello"}`, "null", "") + chunk(`{"content": " world"}`, "null", "")
	switch name {
	case "comments":
		return []byte(begun + ": keepalive\n\n" + chunk(`{"content": "!"}`, "null", "") + chunk("{}", `"stop"`, `, "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}`) + "data: [DONE]\n\n"), nil
	case "reset", "torn", "early":
		return []byte(begun), nil
	}
	return os.ReadFile(filepath.Join(peerCaptures, name+".sse"))
}

// peerHermes answers as Hermes does. The last message names the script.
func peerHermes(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795164799, "owned_by": "hermes"}], "status": "ok", "platform": "hermes-agent"}`)
		return
	}
	var req struct {
		Messages []struct{ Content any }
	}
	asked, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(asked, &req) != nil || len(req.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	name, _ := req.Messages[len(req.Messages)-1].Content.(string)
	body, err := peerScript(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(buf, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
	for frame := range bytes.SplitAfterSeq(body, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		fmt.Fprintf(buf, "%x\r\n%s\r\n", len(frame), frame)
		buf.Flush()
		time.Sleep(20 * time.Millisecond) // the pace of tokens: each frame travels alone
	}
	switch name {
	case "reset":
		conn.(*net.TCPConn).SetLinger(0)
	case "torn":
		fmt.Fprint(buf, "ff\r\ndata: {")
		buf.Flush()
	default:
		fmt.Fprint(buf, "0\r\n\r\n")
		buf.Flush()
	}
}

// A peerClient asks a peer.
type peerClient struct {
	p        peer
	addr, up string
	http     http.Client
}

// startPeer starts a peer and waits until it answers.
func startPeer(t *testing.T, p peer, dir, upstream string) *peerClient {
	t.Helper()
	addr, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	c := &peerClient{p: p, addr: addr, up: upstream, http: http.Client{Timeout: peerSilence}}
	cmd, err := p.start(dir, t.TempDir(), c.addr, upstream)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
		if t.Failed() || testing.Verbose() {
			t.Logf("its log:\n%s", log.Bytes())
		}
	})
	begun := time.Now()
	for time.Since(begun) < peerStart {
		select {
		case <-exited:
			t.Fatal("it has ended")
		case <-time.After(100 * time.Millisecond):
		}
		if res, err := c.post("g0-v0.8.0/plain"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				t.Logf("%s answers after %s", p.name, time.Since(begun).Round(time.Millisecond))
				return c
			}
		}
	}
	t.Fatal("it does not answer")
	return nil
}

func (c *peerClient) post(script string) (*http.Response, error) {
	body := fmt.Sprintf(`{"model": "hermes-agent", "stream": true, "messages": [{"role": "user", "content": %q}]}`, script)
	req, err := http.NewRequest(http.MethodPost, "http://"+c.addr+chatCompletions, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range c.p.headers(c.up) {
		req.Header.Set(k, v)
	}
	return c.http.Do(req)
}

// A peerAnswer is what a client has got.
type peerAnswer struct {
	status             int
	err                error // how the body ended, nil for an end as it should be
	raw                []byte
	content, reasoning string
	events, finish     []string
	tools, comments    int
	failed, done       bool
}

func (c *peerClient) ask(t *testing.T, script string) peerAnswer {
	t.Helper()
	res, err := c.post(script)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	a := peerAnswer{status: res.StatusCode}
	a.raw, a.err = io.ReadAll(res.Body)
	if testing.Verbose() {
		t.Logf("%s: %d, %v\n%s", script, a.status, a.err, a.raw)
	}
	a.read()
	return a
}

// read reads the stream as any client would.
func (a *peerAnswer) read() {
	lines := bufio.NewScanner(bytes.NewReader(a.raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if lines.Text() != "" {
				a.comments++
			}
		case "event":
			a.events = append(a.events, value)
		case "data":
			a.data(value)
		}
	}
}

func (a *peerAnswer) data(value string) {
	if value == "[DONE]" {
		a.done = true
		return
	}
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content          string
				ReasoningContent string `json:"reasoning_content"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Tool  string
		Error any
	}
	if json.Unmarshal([]byte(value), &chunk) != nil {
		return
	}
	if chunk.Error != nil {
		a.failed = true
	}
	if chunk.Tool != "" {
		a.tools++
	}
	for _, c := range chunk.Choices {
		a.content += c.Delta.Content
		a.reasoning += c.Delta.ReasoningContent
		if c.FinishReason != "" {
			a.finish = append(a.finish, c.FinishReason)
		}
	}
}

// ending says how a stream ended for the client: what said so, and whether the
// body did.
func (a peerAnswer) ending() string {
	var all []string
	if a.status != http.StatusOK {
		all = append(all, fmt.Sprint(a.status))
	}
	if a.failed {
		all = append(all, "an error")
	}
	all = append(all, a.finish...)
	if a.done {
		all = append(all, "[DONE]")
	}
	var late net.Error
	switch {
	case errors.As(a.err, &late) && late.Timeout():
		all = append(all, "silence")
	case a.err != nil:
		all = append(all, "aborted")
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// kept says what is left of a stream: "bytes" for all of it, or what of its parts.
func kept(t *testing.T, c *peerClient, script string) string {
	t.Helper()
	body, err := peerScript(script)
	if err != nil {
		t.Fatal(err)
	}
	want := peerAnswer{raw: body}
	want.read()
	got := c.ask(t, script)
	if bytes.Equal(got.raw, body) {
		return "bytes"
	}
	var parts []string
	keep := func(name string, had, has bool) {
		switch {
		case had && has:
			parts = append(parts, name)
		case had:
			parts = append(parts, "no "+name)
		}
	}
	keep("content", want.content != "", got.content == want.content)
	keep("reasoning", want.reasoning != "", got.reasoning == want.reasoning)
	keep("event names", len(want.events) > 0, len(got.events) == len(want.events))
	keep("tools", want.tools > 0, got.tools == want.tools)
	keep("comments", want.comments > 0, got.comments == want.comments)
	keep("end", true, got.ending() == "stop, [DONE]")
	return strings.Join(parts, ", ")
}
