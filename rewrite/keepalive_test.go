package rewrite

import (
	"strings"
	"testing"
)

// breathe returns what a keepalive writes after in.
func breathe(o Options, p Params, in string) string {
	s := New(&o, p)
	feedAll(s, in, inOne)
	return string(s.Keepalive(nil))
}

func TestKeepaliveIsAChunkInTheStreamsEnvelope(t *testing.T) {
	want := "data: {" + envelopeWritten + "}\n\n"
	for _, form := range []KeepaliveForm{"", KeepaliveChunk} {
		same(t, breathe(Options{KeepaliveForm: form}, chatParams, role()), want, "keepalives")
	}
}

func TestKeepaliveIsACommentWhileNoChunkHasCome(t *testing.T) {
	for _, in := range []string{"", ": hello\n\n", keepalive, g1("terminal", "💻", "ls"), "data: {\"id\": \"x"} {
		same(t, breathe(Options{}, chatParams, in), keepalive, "keepalives")
	}
}

func TestKeepaliveFormCommentIsAlwaysAComment(t *testing.T) {
	for _, in := range []string{"", role(), role() + text("x")} {
		same(t, breathe(Options{KeepaliveForm: KeepaliveComment}, chatParams, in), keepalive, "keepalives")
	}
}

func TestKeepaliveWaitsForTheEndOfAnUnexaminedFrame(t *testing.T) {
	o := Options{MaxFrame: 100}
	long := "data: " + strings.Repeat("x", 200)
	for in, want := range map[string]string{
		role() + long:            "",
		role() + long + "\n":     "",
		role() + long + "\n\n":   "data: {" + envelopeWritten + "}\n\n",
		role() + ": " + long:     "",
		role() + "data: partial": "data: {" + envelopeWritten + "}\n\n",
	} {
		o := o
		if strings.Contains(in, "chatcmpl") {
			o.MaxFrame = 300
			in = strings.ReplaceAll(in, strings.Repeat("x", 200), strings.Repeat("x", 400))
		}
		same(t, breathe(o, chatParams, in), want, "keepalives")
	}
}

func TestNoKeepaliveBehindTheFinish(t *testing.T) {
	for _, in := range []string{role() + text("x") + stop(), role() + text("x") + finishChunk("stop", realUsage), role() + doneFrame} {
		same(t, breathe(Options{}, chatParams, in), "", "keepalives")
	}
	s := New(&Options{}, chatParams)
	s.Finish(nil, CauseAborted)
	same(t, string(s.Keepalive(nil)), "", "keepalives behind Finish")
}

func TestNoKeepaliveInAForeignStream(t *testing.T) {
	same(t, breathe(Options{}, Params{}, "data: {\"event\": \"message.delta\"}\n\n"), "", "keepalives")
}

func TestKeepaliveChangesNothingElse(t *testing.T) {
	for _, r := range chats(t, "g0-v0.8.0", "g3-v0.20.3") {
		s := New(&Options{}, chatParams)
		var out []byte
		for _, f := range frames(r.body) {
			for _, half := range []string{f[:len(f)/2], f[len(f)/2:]} {
				out = s.Feed(out, []byte(half), epoch)
				out = s.Keepalive(out)
			}
		}
		out = s.Finish(out, CauseEOF)
		a, b := look(t, string(out)), look(t, repair(r.body))
		if a.content != b.content || len(a.tools) != len(b.tools) || len(a.finishes) != 1 || a.finishes[0] != b.finishes[0] {
			t.Errorf("%s: keepalives have changed the stream", r.name())
		}
		if s.Summary().Keepalives == 0 {
			t.Errorf("%s: no keepalive was counted", r.name())
		}
		a.checkLifecycle(t)
	}
}

func TestKeepaliveLeavesBeforeHeldText(t *testing.T) {
	s := New(&Options{}, chatParams)
	out := s.Feed(nil, []byte(role()+text("a\n`💻 ls")), epoch)
	out = s.Keepalive(out)
	out = s.Finish(s.Feed(out, []byte(text("` x\n")+stop()), epoch), CauseEOF)
	same(t, string(out), role()+"data: {"+envelopeWritten+"}\n\n"+text("a\n`💻 ls")+text("` x\n")+stop(), "bytes")
}

// TestCommentsOfOursInStreamsWithIDs have no blank lines: clients that know an id take one
// for an event without data.
func TestCommentsOfOursInStreamsWithIDs(t *testing.T) {
	id := func(frame string) string { return strings.TrimSuffix(frame, "\n") + "id: 7\n\n" }
	bare := ": keepalive\n"
	for in, want := range map[string]string{
		id(role()):                         bare,
		id(role()) + text("x"):             bare,
		role() + "id\n\n":                  bare,
		id(g1("terminal", "💻", "ls")):      bare,
		"data: {\"grid\": 1}\nidle: 7\n\n": keepalive,
	} {
		same(t, breathe(Options{KeepaliveForm: KeepaliveComment}, chatParams, in), want, "keepalives")
	}
	same(t, breathe(Options{}, chatParams, id(g1("terminal", "💻", "ls"))), bare, "keepalives before the first chunk")
	got, _ := run(id(role())+id(g1("terminal", "💻", "ls"))+id(text("a"))+stop(), Options{Progress: ProgressComment}, chatParams, inOne, CauseEOF)
	if n := strings.Count(got, "\n: hermes.tool.progress {"); n != 2 || strings.Contains(got, "\"running\"}\n\n") || strings.Contains(got, "\"completed\"}\n\n") {
		t.Errorf("%d tool events in comments, or one with a blank line:\n%s", n, got)
	}
}
