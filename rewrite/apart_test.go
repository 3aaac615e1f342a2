package rewrite

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// piecesOf returns a message in pieces: M is a marker of its own, E a tool event, R
// a reasoning delta, Q what says nothing, all else text.
func piecesOf(list ...string) string {
	var b strings.Builder
	for _, p := range list {
		switch p {
		case "M":
			b.WriteString(markerChunk("💻", "ls"))
		case "E":
			b.WriteString(g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1"))
		case "R":
			b.WriteString(reasoning("hm"))
		case "Q": // says nothing
			b.WriteString(keepalive + delta("") + delta(`"content": ""`))
		default:
			b.WriteString(text(p))
		}
	}
	return b.String()
}

// What is left of a message around dropped markers: no text runs into another, and
// no marker stays (contract section 1).
var apart = []struct {
	pieces []string
	want   string
}{
	{[]string{"Hello", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "Q", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", " ", "World"}, "Hello\n World"},
	{[]string{"Hello", "M", "\u00a0World"}, "Hello\n\u00a0World"},
	{[]string{"Hello\n", "M", "World"}, "Hello\n\nWorld"},
	{[]string{"\n", "M", "World"}, "\n\nWorld"},
	{[]string{"Hello", "M", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M"}, "Hello"},
	{[]string{"M", "World"}, "World"},
	{[]string{"M", "\nWorld"}, "\nWorld"},
	{[]string{"M", "M", "World"}, "World"},
	{[]string{"Hello", "M", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "R", "World"}, "Hello\nWorld"},
	{[]string{"R", "M", "World"}, "World"},
	{[]string{"Hello", "M", "World", "M", "Again"}, "Hello\nWorld\nAgain"},

	{[]string{"Hello", "M", "`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "\n`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n`⚙ y`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\n`⚙ y`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello\n`📖 a`", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "`⚙ y`\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a` b\n", "c"}, "Hello\n`📖 a` b\nc"},
	{[]string{"Hello", "M", "`📖 a", "E", "b"}, "Hello\n`📖 ab"},
	{[]string{"Hello", "M", "`🦄 a`\nb"}, "Hello\n`🦄 a`\nb"},
	{[]string{"Hello", "M", "`🦄 a`\n", "b"}, "Hello\n`🦄 a`\nb"},
	{[]string{"Hello", "M", "`📖 a` and `💻 b`\n", "b"}, "Hello\n`📖 a` and `💻 b`\nb"},
	{[]string{"Hello", "M", "```\n`📖 a`\n```\n", "b"}, "Hello\n```\n`📖 a`\n```\nb"},
	{[]string{"Hello", "M", "`", "git` x"}, "Hello\n`git` x"},

	{[]string{"Hello", "M", "<think>a</think>World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "<think>a</think>\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\n\n<think>a</think>World"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "<think>a</think>`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "<thi", "World"}, "Hello\n<thiWorld"},
	{[]string{"Hello", "M", "<think>a</think>", "M", "World"}, "Hello\nWorld"},
	{[]string{"<think>a</think>", "M", "World"}, "World"},
}

func TestTextsAroundMarkersStayApart(t *testing.T) {
	for _, c := range apart {
		in := role() + piecesOf(c.pieces...) + stop()
		for _, o := range allOptions() {
			if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep || o.Progress == ProgressOff && slices.Contains(c.pieces, "E") {
				continue // an event that does not leave ends no line
			}
			out := repairWith(in, o)
			if got := look(t, out).content; got != c.want {
				t.Errorf("%q: content %q, want %q\n%+v", c.pieces, got, c.want, o)
			}
			for _, cut := range []cutter{oneByte, byFrame(in), atRandom(1, 50)} {
				again, _ := run(in, o, chatParams, cut, CauseEOF)
				same(t, again, out, "outputs of two cuts")
			}
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(role()+piecesOf(c.pieces...), o, chatParams, inOne, CauseAborted)
			if got := look(t, cut).content; got != c.want {
				t.Errorf("%q: content before a crash %q, want %q", c.pieces, got, c.want)
			}
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", c.pieces, o, out)
			}
		}
	}
}

// One rune in each delta is the same, with and without the fast paths: those need
// frames that are alike.
func TestTextsAroundMarkersStayApartInSmallDeltas(t *testing.T) {
	for _, c := range apart {
		in := role() + texts("Once", " upon", " a time. ")
		for _, p := range c.pieces {
			if len(p) < 2 {
				in += piecesOf(p)
				continue
			}
			in += texts(strings.Split(p, "")...)
		}
		v := look(t, repair(in+stop()))
		want := "Once upon a time. " + c.want
		if c.pieces[0] == "M" || strings.HasPrefix(c.pieces[0], "<think>") || c.pieces[0] == "R" || c.pieces[0] == "\n" {
			continue // the message has another beginning
		}
		if v.content != want {
			t.Errorf("%q: content %q, want %q", c.pieces, v.content, want)
		}
	}
}

// A history of what upstream said, healed, is the text that the client got, and that
// has nothing to be healed (contract section 5).
func TestHistoriesOfMarkersAreHealedAsStreamsAre(t *testing.T) {
	for _, c := range apart {
		upstream := role() + piecesOf(c.pieces...) + stop()
		said := look(t, repairWith(upstream, Options{Imitations: ImitationsKeep, Reasoning: ReasoningKeep})).content
		if strings.Contains(said, "<think>") || strings.Contains(strings.Join(c.pieces, ""), "E") {
			continue // the line ends only for who sees the event
		}
		raw := look(t, upstream).content
		healed, _ := whole.StripMarkers(jsonspan.Inside(jsonspan.Quote(raw)), marker.Hermes)
		if got := unquote(append(append([]byte{'"'}, healed...), '"')); strings.TrimRight(got, "\n") != strings.TrimRight(c.want, "\n") {
			t.Errorf("%q: healed %q, want %q", c.pieces, got, c.want)
		}
		once := jsonspan.Inside(jsonspan.Quote(look(t, repair(upstream)).content))
		if again, n := whole.StripMarkers(once, marker.Hermes); n > 0 || string(again) != string(once) {
			t.Errorf("%q: what the client got is healed again: %q", c.pieces, again)
		}
	}
}

// A frame that passes unexamined is, for all that is known, text: nothing is owed
// after it, and nothing goes.
func TestUnexaminedFrameKeepsTextsApart(t *testing.T) {
	large := text(strings.Repeat("x", 1000))
	for _, c := range [][2]string{{"Hello", "World"}, {"Hello\n`📖 a`\n", "\nWorld"}} {
		out := repairWith(role()+text(c[0])+markerChunk("💻", "ls")+large+text(c[1])+stop(), Options{MaxFrame: 900})
		if !strings.Contains(out, large) || !strings.Contains(out, text(c[1])) {
			t.Errorf("the text behind it has changed:\n%s", out)
		}
	}
}

// apartTokens are what FuzzApart makes a message of: each in a chunk of its own,
// or, where it follows a +, in one with the token before.
var apartTokens = []string{
	"M", "M", "Q", "+", "+", "+", "Hello", "World", "\n", "\n\n", " ", "`📖 a`", "`⚙ y`\n", "\n`💻 b`", "`💻", " c`", "`", "` x", "`git`", "\n`📖 d`\n", "é",
}

// FuzzApart: a message without markers is what is left of it when they are taken out
// of the whole text, as of a history, but for the newlines at its ends.
func FuzzApart(f *testing.F) {
	f.Add([]byte{6, 0, 11, 0, 8, 7})
	f.Add([]byte{6, 0, 11, 2, 8, 3, 12, 3, 7})
	f.Add([]byte{6, 8, 11, 0, 0, 12, 8, 7, 0, 14, 15, 6})
	f.Add([]byte{6, 0, 12, 4, 16, 17, 0, 10, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 60 {
			return
		}
		var list []string
		joined := false
		for _, b := range script {
			switch token := apartTokens[int(b)%len(apartTokens)]; {
			case token == "+":
				joined = true
			case joined && len(list) > 0 && !strings.ContainsAny(token[:1]+list[len(list)-1][:1], "MQ"):
				list[len(list)-1] += token
				joined = false
			default:
				list = append(list, token)
				joined = false
			}
		}
		for _, p := range list {
			if _, ok := marker.Whole(jsonspan.Inside(jsonspan.Quote(p))); ok && !isMarkerLine(strings.Trim(p, "\n")) {
				return // in a text it would be prose about tools
			}
		}
		in := role() + piecesOf(list...) + stop()
		said := look(t, in).content
		if strings.Contains(said, "```") {
			return // a real marker goes from a fence, too
		}
		want, _ := withoutMarkers(said)
		for _, o := range []Options{{}, {Imitations: ImitationsTrust}, {Progress: ProgressOff, EmptyAnswer: EmptyAnswerPass}} {
			out := repairWith(in, o)
			got := look(t, out).content
			same(t, strings.Trim(got, "\n"), strings.Trim(want, "\n"), "contents")
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(in, o, chatParams, oneByte, CauseEOF)
			same(t, cut, out, "outputs of two cuts")
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", list, o, out)
			}
		}
	})
}
