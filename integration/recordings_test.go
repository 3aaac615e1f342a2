package integration

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// captures is where the recordings of real Hermes servers are.
var captures = path("testdata/captures")

// A recording is what a Hermes server has answered.
type recording struct {
	generation string // such as g0-v0.8.0 or agent-loop/g0-v0.8.0
	scenario   string
	header     string // status line and header, with the blank line
	body       []byte
}

func (r recording) String() string { return r.generation + "/" + r.scenario }

// legacy says that tools come without ids and completions: G0 and G1.
func (r recording) legacy() bool {
	g := strings.TrimPrefix(strings.TrimPrefix(r.generation, "agent-loop/"), "live-")
	return strings.HasPrefix(g, "g0") || strings.HasPrefix(g, "g1")
}

// live says that it was taken of a whole gateway, and that no other generation has the
// same scenario.
func (r recording) live() bool { return strings.HasPrefix(r.generation, "live-") }

// path is where the request of such a recording went.
func (r recording) path() string {
	switch {
	case strings.HasPrefix(r.scenario, "responses."):
		return "/v1/responses"
	case strings.HasPrefix(r.scenario, "runs."):
		return "/v1/runs/run_1/events"
	}
	return "/v1/chat/completions"
}

// recorded reads one recording, such as "g0-v0.8.0/one_tool".
func recorded(t testing.TB, name string) recording {
	t.Helper()
	r := recording{generation: filepath.ToSlash(filepath.Dir(name)), scenario: filepath.Base(name)}
	var err error
	if r.body, err = os.ReadFile(filepath.Join(captures, name+".sse")); err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(captures, name+".headers"))
	if err != nil {
		header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(string(header)), "\r\n", "\n"), "\n")
	r.header = strings.Join(lines, "\r\n") + "\r\n\r\n"
	return r
}

// recordings reads all event streams whose name matches keep.
func recordings(t testing.TB, keep func(r recording) bool) []recording {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*/*.sse", "*/*/*.sse"} {
		found, err := filepath.Glob(filepath.Join(captures, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	sort.Strings(names)
	var all []recording
	for _, n := range names {
		n, _ = filepath.Rel(captures, strings.TrimSuffix(n, ".sse"))
		if r := recorded(t, n); keep(r) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		t.Fatal("no recordings below " + captures)
	}
	return all
}

// chats keeps the recordings of /v1/chat/completions.
func chats(r recording) bool { return r.path() == "/v1/chat/completions" }

// A cutter decides how a body is divided into HTTP chunks.
type cutter struct {
	name string
	cut  func(body []byte) [][]byte
}

var whole = cutter{"whole", func(b []byte) [][]byte { return [][]byte{b} }}

// byFrame is what Hermes does: an event, a chunk.
var byFrame = cutter{"frame by frame", func(b []byte) [][]byte {
	return bytes.SplitAfter(b, []byte("\n\n"))
}}

var byByte = cutter{"byte by byte", func(b []byte) [][]byte {
	var parts [][]byte
	for i := range b {
		parts = append(parts, b[i:i+1])
	}
	return parts
}}

// atRandom cuts anywhere, always alike for a seed.
func atRandom(seed uint64) cutter {
	return cutter{"at random", func(b []byte) [][]byte {
		rnd := rand.New(rand.NewPCG(seed, seed))
		var parts [][]byte
		for len(b) > 0 {
			n := min(len(b), 1+rnd.IntN(120))
			parts = append(parts, b[:n])
			b = b[n:]
		}
		return parts
	}}
}

// replay answers every request with r, whole from header to end.
func replay(r recording, c cutter) script {
	parts := c.cut(r.body)
	return func(x *exchange) {
		x.raw(r.header)
		if !strings.Contains(r.header, "chunked") {
			x.raw(string(r.body))
			return
		}
		for _, p := range parts {
			x.chunk(p)
		}
		x.end()
	}
}

// router plays the script whose name the request's X-Play header has.
type router map[string]script

func (r router) play(x *exchange) {
	if s := r[x.req.Header.Get("X-Play")]; s != nil {
		s(x)
		return
	}
	asJSON("404 Not Found", `{"error":"no such script"}`)(x)
}

// library is a router of recordings, whole, by their names.
func library(all []recording, c cutter) router {
	r := router{}
	for _, rec := range all {
		r[rec.String()] = replay(rec, c)
	}
	return r
}
