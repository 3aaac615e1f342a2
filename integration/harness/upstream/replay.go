package upstream

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// Lines returns a script of frames, given by their lines, that ends well.
func Lines(frames ...[]string) Script {
	return func(x *Exchange) {
		x.Events()
		for _, f := range frames {
			x.Frame(f...)
		}
		x.End()
	}
}

// HeldBack returns a script that sends the role, and the rest of a good answer once rest is
// closed.
func HeldBack(rest <-chan struct{}) Script {
	return func(x *Exchange) {
		x.Begin()
		if x.Wait(rest) {
			x.Frame(hermes.Delta("content", "hi"))
			x.Finish()
		}
	}
}

// A Cutter divides a body into HTTP chunks.
type Cutter struct {
	Name string
	Cut  func(body []byte) [][]byte
}

// Whole does not cut.
var Whole = Cutter{"whole", func(b []byte) [][]byte { return [][]byte{b} }}

// ByFrame makes a chunk of each event, as Hermes does.
var ByFrame = Cutter{"frame by frame", func(b []byte) [][]byte {
	return bytes.SplitAfter(b, []byte("\n\n"))
}}

// ByByte makes a chunk of each byte.
var ByByte = Cutter{"byte by byte", func(b []byte) [][]byte {
	var parts [][]byte
	for i := range b {
		parts = append(parts, b[i:i+1])
	}
	return parts
}}

// AtRandom cuts anywhere, in the same way for the same seed.
func AtRandom(seed uint64) Cutter {
	return Cutter{"at random", func(b []byte) [][]byte {
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

// Replay returns a script that answers with a recording, from the header to the end.
func Replay(r hermes.Recording, c Cutter) Script {
	parts := c.Cut(r.Body)
	return func(x *Exchange) {
		x.Raw(r.Header)
		if !strings.Contains(r.Header, "chunked") {
			x.Raw(string(r.Body))
			return
		}
		for _, p := range parts {
			x.Chunk(p)
		}
		x.End()
	}
}

// A Router has scripts by their names.
type Router map[string]Script

// Play plays the script that the request's X-Play header names.
func (r Router) Play(x *Exchange) {
	if s := r[x.Req.Header.Get("X-Play")]; s != nil {
		s(x)
		return
	}
	AsJSON("404 Not Found", `{"error":"no such script"}`)(x)
}

// Library returns a router of recordings by their names.
func Library(all []hermes.Recording, c Cutter) Router {
	r := Router{}
	for _, rec := range all {
		r[rec.String()] = Replay(rec, c)
	}
	return r
}

// Held returns a server whose streams wait after the first frames until rest is closed.
func Held(t testing.TB) (up *Server, rest chan struct{}) {
	rest = make(chan struct{})
	up = New(t, Router{
		"": func(x *Exchange) {
			x.Begin("hi", "\n`💻 make`\n")
			if x.Wait(rest) {
				x.Frame(hermes.Delta("content", "\n\nok"))
				x.Finish()
			}
		},
		"header alone": func(x *Exchange) { x.Events(); x.Wait(rest) },
		"no header":    (*Exchange).Silence,
	}.Play)
	return up, rest
}
