package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// peersVariable names the directory that the peers are installed in, each in one of its own.
const peersVariable = "HERMES_BENCH_PEERS"

// A peerFact is what a peer does to a stream.
type peerFact struct {
	kept   []string // of each of peerRecordings: "bytes" for all of it, or its parts
	ends   []string // what clients see of each of deaths
	failed string   // the finish reason of a turn that Hermes 0.20 says has failed
}

// peerRecordings are streams of Hermes: with markers, with tool events, with reasoning, and of
// a turn that has failed.
var peerRecordings = []string{"g0-v0.8.0/one_tool", "g3-v0.20.3/one_tool", "g4-transcribed/reasoning", "g3-v0.20.3/crash_after_text"}

// untouched is a peer that passes bytes on and knows nothing of them.
var untouched = peerFact{[]string{"bytes", "bytes", "bytes", "bytes"}, []string{"cut", "cut", "short", "stop"}, "error"}

// peerFacts are by the name without its version.
var peerFacts = map[string]peerFact{
	"nginx": untouched,
	"Envoy": untouched,
	// A reset is a clean end of the body for its client.
	"Portkey gateway": {untouched.kept, []string{"short", "short", "short", "stop"}, "error"},
	// It parses each chunk and makes its own; it says stop for an agent that did not.
	"LiteLLM": {[]string{"content", "content", "content, reasoning", "content"}, []string{"error", "error", "stop", "stop"}, ""},
}

// Every peer passes the text of a stream on, and does with everything else what peerFacts says.
func TestPeers(t *testing.T) {
	t.Chdir("..") // as go run has it
	if _, err := exec.LookPath("taskset"); runtime.GOOS == "linux" && err != nil {
		t.Skip(err)
	}
	base := os.Getenv(peersVariable)
	can, cannot := peers()
	for name, why := range cannot {
		t.Logf("%s: %s", name, why)
	}
	for _, p := range can {
		t.Run(p.id, func(t *testing.T) {
			if p.id != "nginx" && base == "" {
				t.Skip(peersVariable + " names no directory to install it in")
			}
			var hermes player
			backend := httptest.NewServer(&hermes)
			t.Cleanup(backend.Close)
			b := beside{stage: stage{work: t.TempDir(), backend: backend.Listener.Addr().String()}, install: base}
			process, err := b.startPeer(p)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(process.stop)
			c := &contender{name: p.name, proxyProcess: process}
			c.die()
			got := peerFact{ends: c.ends}
			for _, recording := range peerRecordings {
				var kept string
				kept, got.failed = hermes.played(t, c.target, recording)
				got.kept = append(got.kept, kept)
			}
			want := peerFacts[strings.TrimRight(p.name, " .0123456789")]
			if !slices.Equal(got.kept, want.kept) || !slices.Equal(got.ends, want.ends) || got.failed != want.failed {
				t.Errorf("%s:\ngot  %+v\nwant %+v", p.name, got, want)
			}
		})
	}
}

// A player is the scripted backend, which answers chats with a recording once it has one.
type player struct{ recording atomic.Pointer[[]byte] }

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recording := p.recording.Load()
	if recording == nil || r.Method == http.MethodGet {
		answerRequest(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for frame := range bytes.SplitAfterSeq(*recording, []byte("\n\n")) {
		w.Write(frame)
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond) // the pace of tokens: each frame travels alone
	}
}

// played asks for a recording, and returns what of it came, and its finish reason.
func (p *player) played(t *testing.T, at target, recording string) (kept, finish string) {
	t.Helper()
	sent, err := os.ReadFile(filepath.Join("../testdata/captures", recording+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	p.recording.Store(&sent)
	a, err := ask(at, scenario{}, 0, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got, err := io.ReadAll(a.body)
	want, _, _ := texts(t, string(sent))
	have, thought, finish := texts(t, string(got))
	switch {
	case err != nil:
		return err.Error(), finish
	case string(got) == string(sent):
		return "bytes", finish
	case have == want && thought:
		return "content, reasoning", finish
	case have == want:
		return "content", finish
	}
	return "another text: " + have, finish
}

// texts returns the text of a stream, whether there is reasoning, and its finish reason.
func texts(t *testing.T, stream string) (content string, reasoning bool, finish string) {
	t.Helper()
	err := eachEvent(strings.NewReader(stream), func(data string) error {
		chunk, err := parseChunk(data)
		for _, c := range chunk.Choices {
			content += c.Delta.Content
			reasoning = reasoning || c.Delta.Reasoning != ""
			finish = max(finish, c.FinishReason)
		}
		return err
	})
	if err != nil {
		t.Errorf("%v in %s", err, stream)
	}
	return content, reasoning, finish
}
