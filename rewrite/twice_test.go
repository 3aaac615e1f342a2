package rewrite

import (
	"strings"
	"testing"
)

// What is left of a chunk does not look like a real marker to whoever comes after
// us: it would start a tool for it.
func TestWhatIsLeftOfAChunkIsNoMarker(t *testing.T) {
	for _, c := range []struct {
		in, content string
	}{
		{text("\n`💻 b`\n`🦄 x`\n"), "\n`🦄 x`\n"},
		{texts("a\n`💻 b`\n", "\n\n`🦄 x`\n"), "a\n\n`🦄 x`\n"},
		{texts("a\n`💻 b`", "\n\n\n`🦄 x`\n"), "a\n\n`🦄 x`\n"},
		{texts("\n`🦄 x`\n`💻", " b`\n"), "\n`🦄 x`\n"},
		{texts("\n`🦄 x`\n`💻", " b` c\n"), "\n`🦄 x`\n`💻 b` c\n"},
		{texts("\n`🦄 x`\n`💻 b`\nc"), "\n`🦄 x`\nc"},
		{texts("\n`🦄 x`\n`💻 b`\n<thi", "nk>y</think>c"), "\n`🦄 x`\nc"},
		{text("\n`💻 b`\n`💻 terminal` and `📖 read_file`\n"), "\n`💻 terminal` and `📖 read_file`\n"},
		{delta(`"content": "\u000a\u0060💻 b\u0060\u000a\u0060🦄 x\u0060\u000a"`), "\n`🦄 x`\n"},
		{delta(`"role": "assistant", "content": "\n` + "`💻 b`" + `\n` + "`🦄 x`" + `\n"`), "\n`🦄 x`\n"},
		{strings.Replace(text("\n`💻 b`\n`🦄 x`\n"), `"delta"`, `"text": "\n`+"`💻 b`"+`\n`+"`🦄 x`"+`\n", "delta"`, 1), "\n`🦄 x`\n"},
		{text("a") + markerChunk("💻", "ls") + text("`🦄 x`\n"), "a\n`🦄 x`\n"},
	} {
		for _, end := range []string{stop(), strings.ReplaceAll(stop(), "\n", "\r\n")} {
			in := role() + c.in + end
			if end != stop() {
				in = strings.ReplaceAll(role()+c.in, "\n", "\r\n") + end
			}
			for _, o := range allOptions() {
				if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep {
					continue
				}
				once := repairWith(in, o)
				if v := look(t, once); v.content != c.content {
					t.Errorf("%q: content %q, want %q", c.in, v.content, c.content)
				}
				same(t, repairWith(once, o), once, "twice and once")
				if o.Imitations != ImitationsTrust && !strings.Contains(c.in, "ls`") && strings.Contains(once, "running") {
					t.Errorf("a tool starts:\n%s", once)
				}
				for _, cut := range []cutter{oneByte, atRandom(1, 99)} {
					again, _ := run(in, o, chatParams, cut, CauseEOF)
					same(t, again, once, "outputs of two cuts")
				}
				if t.Failed() {
					t.Fatalf("%+v\n%s", o, once)
				}
			}
		}
	}
}

// A CR and its LF are not torn apart where a frame leaves in parts of which the last
// is held, or is nothing; what comes of ours in between changes nothing else.
func TestPartsKeepTheirLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	for _, c := range []struct {
		in string
		o  Options
	}{
		{text("a\n\n<think></think>`"), Options{}},
		{text("a\n\n<think>b</think>`💻 ls"), Options{}},
		{text("a\n\n<think>b</think>\n\n<thi"), Options{}},
		{text("a\n\n<think>b</think>"), Options{}},
		{text("<think>b</think>"), Options{}},
		{text("a\n`💻 x`\n"), Options{Imitations: ImitationsTrust, Progress: ProgressOff}},
		{text("a\n`💻 x`\n"), Options{Imitations: ImitationsTrust}},
		{text("a\n`💻 x`\n`📖"), Options{Imitations: ImitationsTrust}},
		{text("\n`🦄 x`\n`💻"), Options{}},
		{text("`💻") + delta(""), Options{MaxFrame: 350}},
		{text("\n`💻") + text(strings.Repeat("x", 5000)), Options{}},
		{keepalive, Options{}},
	} {
		in := crlf(role() + c.in)
		rest := crlf(text("\nb") + stop())
		want := repairWith(in+rest, c.o)
		if s := strings.ReplaceAll(want, "\r\n", ""); strings.Contains(s, "\r") {
			t.Errorf("%q: a CR without its LF:\n%q", c.in, want)
		}
		s := New(&c.o, chatParams)
		out := s.Feed(nil, []byte(in[:len(in)-1]), epoch)
		from := len(out)
		out = s.Keepalive(out)
		breath := string(out[from:])
		out = s.Feed(out, []byte(in[len(in)-1:]+rest), epoch)
		got := string(s.Finish(out, CauseEOF))
		if out[from-1] == '\r' && !strings.HasPrefix(breath, "\n") {
			t.Errorf("a keepalive stands between a CR and its LF")
		}
		breath = strings.TrimPrefix(breath, "\n")
		same(t, strings.Replace(got, breath, "", 1), want, "outputs with a keepalive between CR and LF")
		same(t, repairWith(want, c.o), want, "twice and once")
		if t.Failed() {
			t.Fatalf("%q %+v", c.in, c.o)
		}
	}
}

// A frame that is dropped from those that are held takes its LF with it.
func TestHeldFrameGoesWithItsLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	in := role() + texts("a\n`💻", " ls", "`\n", "b") + stop()
	for _, cut := range []cutter{inOne, oneByte} {
		out, _ := run(crlf(in), Options{}, chatParams, cut, CauseEOF)
		same(t, out, crlf(repair(in)), "bytes")
	}
}
