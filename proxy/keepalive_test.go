package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestKeepaliveForms(t *testing.T) {
	for name, c := range map[string]struct {
		form   rewrite.KeepaliveForm
		before string
		want   string
	}{
		"by default, no chunk yet":         {"", "", beat},
		"by default":                       {"", role, beatForm},
		"by default, behind a comment":     {"", comment, beat},
		"as a chunk":                       {rewrite.KeepaliveChunk, role, beatForm},
		"as a chunk, no chunk yet":         {rewrite.KeepaliveChunk, "", beat},
		"as a comment":                     {rewrite.KeepaliveComment, role, beat},
		"as a chunk, within a frame":       {rewrite.KeepaliveChunk, role + text("a")[:30], beatForm},
		"as a chunk, with text held":       {rewrite.KeepaliveChunk, role + text("`💻 l"), beatForm},
		"as a comment, behind a tool":      {rewrite.KeepaliveComment, text("\\n`💻 ls`\\n"), beat},
		"as a chunk, behind a tool":        {rewrite.KeepaliveChunk, text("\\n`💻 ls`\\n"), beatForm},
		"as a chunk, behind foreign frame": {rewrite.KeepaliveChunk, "data: [1]\n\n", beat},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Keepalive = 10 * time.Second
				o.Rewrite.KeepaliveForm = c.form
			}))
			x.stream()
			if c.before != "" {
				x.write(c.before)
			}
			sent, calls := x.rec.body.String(), len(x.rec.log)
			advance(10*time.Second - 1)
			x.wantBody(sent)
			advance(1)
			x.wantBody(sent + c.want)
			if got := x.rec.log[calls:]; got[len(got)-1] != "flush" {
				t.Errorf("the keepalive was not flushed: %q", got)
			}
			advance(10 * time.Second)
			x.wantBody(sent + c.want + c.want)
			x.ret(nil)
		})
	}
}

func TestNoKeepaliveWithinAFrameThatLeavesInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) {
			o.Keepalive = 10 * time.Second
			o.Rewrite.MaxFrame = 512
		}))
		x.stream()
		x.write(role)
		parts := role
		for _, s := range []string{`data: {"x":"` + strings.Repeat("x", 600), strings.Repeat("y", 600), `"}` + "\n"} {
			x.write(s)
			parts += s
			advance(time.Minute)
			if got := x.rec.body.String(); !strings.HasPrefix(parts, got) {
				t.Errorf("within the frame the client was sent something else:\n%s", got)
			}
		}
		if x.rec.body.Len() <= len(role) {
			t.Fatal("no part of the frame has left")
		}
		x.write("\n")
		advance(10 * time.Second)
		x.wantBody(parts + "\n" + beatForm)
		x.ret(nil)
	})
}

func TestKeepaliveThatTheClientDoesNotTakeCancelsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
		x.stream()
		x.write(role)
		x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
		advance(10 * time.Second)
		if cause := context.Cause(x.up.Context()); cause != errTest { //nolint:errorlint // the very error
			t.Errorf("upstream's request ended with the cause %v, want the inner writer's error", cause)
		}
		x.abort().wantPanic(t, http.ErrAbortHandler)
	})
}
