package rewrite

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A keepalive is a chunk in the stream's envelope, or a comment before the first chunk and with that option, and
// waits for the end of a frame that passes unexamined. In a stream with ids a comment of the sidecar's has no
// blank line: clients that know an id take one for an event without data.
func TestKeepalives(t *testing.T) {
	const chunk, bare = "data: {" + envelopeWritten + "}\n\n", ": keepalive\n"
	comments := Options{KeepaliveForm: KeepaliveComment}
	long := "data: " + strings.Repeat("x", 400)
	id := func(frame string) string { return strings.TrimSuffix(frame, "\n") + "id: 7\n\n" }
	for _, c := range []struct {
		o     Options
		p     Params
		wants map[string]string
	}{
		{Options{}, chatParams, map[string]string{
			"": keepalive, ": hello\n\n": keepalive, keepalive: keepalive,
			g1("terminal", "💻", "ls"): keepalive, "data: {\"id\": \"x": keepalive,
			role(): chunk, role() + "data: partial": chunk, id(g1("terminal", "💻", "ls")): bare,
			turn(text("x")): "", role() + text("x") + finishChunk("stop", realUsage): "",
			role() + doneFrame: "",
		}},
		{Options{KeepaliveForm: KeepaliveChunk}, chatParams, map[string]string{"": keepalive, role(): chunk}},
		{Options{MaxFrame: 300}, chatParams, map[string]string{
			role() + long: "", role() + long + "\n": "", role() + long + "\n\n": chunk,
			role() + ": " + long: "",
		}},
		{comments, chatParams, map[string]string{
			"": keepalive, role(): keepalive, role() + text("x"): keepalive,
			"data: {\"grid\": 1}\nidle: 7\n\n": keepalive,
			id(role()):                         bare, id(role()) + text("x"): bare, role() + "id\n\n": bare,
			id(g1("terminal", "💻", "ls")): bare,
		}},
		{Options{}, Params{}, map[string]string{"data: {\"event\": \"message.delta\"}\n\n": ""}},
	} {
		for in, want := range c.wants {
			s := New(&c.o, c.p)
			feedAll(s, in, inOne)
			same(t, string(s.Keepalive(nil)), want, "keepalives after "+in)
		}
	}
	s := New(&Options{}, chatParams)
	s.Finish(nil, CauseAborted)
	same(t, string(s.Keepalive(nil)), "", "keepalives after Finish")
	s = New(&Options{}, chatParams)
	out := s.Keepalive(s.Feed(nil, []byte(role()+text("a\n`💻 ls")), epoch)) // leaves before held text
	out = s.Finish(s.Feed(out, []byte(text("` x\n")+stop()), epoch), CauseEOF)
	same(t, string(out), role()+chunk+texts("a\n`💻 ls", "` x\n")+stop(), "bytes")
	got, _ := run(id(role())+id(g1("terminal", "💻", "ls"))+id(text("a"))+stop(), Options{Progress: ProgressComment}, chatParams, inOne, CauseEOF)
	if n := strings.Count(got, "\n: hermes.tool.progress {"); n != 2 || strings.Contains(got, "\"running\"}\n\n") || strings.Contains(got, "\"completed\"}\n\n") {
		t.Errorf("%d tool events in comments, or one with a blank line:\n%s", n, got)
	}
}

// A comment of upstream's that says nothing becomes the keepalive of the stream, in every framing and wherever the
// stream is cut. Any other comment passes byte for byte, and so does every comment where Keepalive writes one.
func TestKeepalivesOfUpstream(t *testing.T) {
	const chunk = "data: {" + envelopeWritten + "}\n\n"
	silent, end := []string{keepalive, ":keepalive\n\n", ": keep-alive \n\n", ": PING\n\n", ": heartbeat\n\n"}, text("x")+stop()
	for _, form := range []KeepaliveForm{KeepaliveChunk, KeepaliveComment} {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			for _, c := range append(silent, ":\n\n", ": said\n\n", ": keepalive of mine\n\n", ": keepalive\n: said\n\n", ": hermes.status {}\n\n") {
				lines := strings.NewReplacer("\n", eol)
				before, in, after := lines.Replace(role()+text("a")), lines.Replace(c), lines.Replace(end)
				want := in
				if form == KeepaliveChunk && slices.Contains(silent, c) {
					want = chunk
				}
				for _, cut := range []func(int) int{inOne, oneByte} {
					out, _ := run(before+in+after, Options{KeepaliveForm: form}, chatParams, cut, CauseEOF)
					same(t, out, before+want+after, "bytes around "+in)
				}
				for _, whole := range []string{in + before + after, before + after + in} { // before any chunk, and at the end
					same(t, repairWith(whole, Options{KeepaliveForm: form}), whole, "bytes")
				}
			}
		}
	}
}

// However many such comments come, what is written for a read is bounded; those that come later each have a chunk.
func TestKeepalivesOfUpstreamAreBounded(t *testing.T) {
	s := New(&Options{}, chatParams)
	s.Feed(nil, []byte(role()), epoch)
	comments, now := []byte(strings.Repeat(":ping\n\n", 10_000)), epoch
	for range 3 {
		now = now.Add(time.Second)
		if out := s.Feed(nil, comments, now); strings.Count(string(out), "data: ") != 1 || len(out) > len(comments) {
			t.Errorf("%d bytes are written for %d of comments", len(out), len(comments))
		}
	}
}
