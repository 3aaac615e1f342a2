package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// follow feeds in to two streams in the same reads, of which one reads each frame, and
// compares what leaves and what they know.
func follow(t *testing.T, in string, o Options, p Params, cut cutter, cause Cause) {
	t.Helper()
	quick := New(&o, p)
	p.Explain = func(Step) {} // what is explained is read
	reads := New(&o, p)
	for at := 0; at < len(in) && !t.Failed(); {
		n := cut(len(in) - at)
		read := in[at : at+n]
		at += n
		got := string(quick.Feed(nil, []byte(read), epoch))
		want := string(reads.Feed(nil, []byte(read), epoch))
		same(t, got, want, "what leaves for the read that ends at "+fmt.Sprint(at))
		if got, want := knows(quick), knows(reads); got != want {
			t.Errorf("after %q:\nknows %s\nwant  %s", read, got, want)
		}
	}
	same(t, string(quick.Finish(nil, cause)), string(reads.Finish(nil, cause)), "the end")
	if got, want := quick.Summary(), reads.Summary(); got != want {
		t.Errorf("summaries: %+v, %+v", got, want)
	}
}

// byFrame reads frame by frame.
func byFrame(in string) cutter {
	all, i := frames(in), 0
	return func(n int) int {
		i++
		return min(n, len(all[i-1]))
	}
}

// TestAlikeChangesNothing: a frame that is not read leaves as if it were, and
// what is known is the same.
func TestAlikeChangesNothing(t *testing.T) {
	for _, r := range everyNth(recordings(t)) {
		for _, o := range allOptions() {
			for _, cut := range []cutter{byFrame(r.body), atRandom(1, 300)} {
				follow(t, r.body, o, r.params(), cut, CauseAborted)
				if t.Failed() {
					t.Fatalf("%s with %+v", r.name(), o)
				}
			}
		}
	}
}

// TestLikeFramesAreNotRead: this is what makes a clean stream cheap.
func TestLikeFramesAreNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want int
	}{
		"text":                 {texts("a", "b", " c", "d e", "é 💻 \"x\" \\"), 4},
		"lines":                {texts("a", "b\n", "c", "\n\n", "# d", "\n"), 5},
		"white space first":    {texts(" ", "a", " ", "b"), 2},
		"code at a line":       {texts("see", "\n", "`git status`", "."), 3},
		"a fence":              {texts("see\n", "```go\n", "`x` <b>\n", "`\U0001f4bb ls`\n", "```", "\n", "x"), 6},
		"a tag":                {texts("see\n", "<b>", "\n\n", "<b>", "x", "y"), 4},
		"a marker at a line":   {texts("see\n", "a\n`\U0001f4bb ls", "` x\n", " y"), 1},
		"reasoning":            {reasoning("a") + reasoning("b\n") + reasoning("`<c"), 2},
		"reasoning, then text": {reasoning("a") + reasoning("b") + texts("c", "d"), 2},
		"a comment in between": {texts("a", "b") + keepalive + texts("c", "d"), 2},
		"another envelope":     {texts("a", "b") + strings.ReplaceAll(texts("c", "d"), "chatcmpl-1", "chatcmpl-2"), 2},
		"another choice":       {texts("a", "b") + strings.ReplaceAll(texts("c"), `"index": 0`, `"index": 1`), 1},
		"a finish in a frame":  {texts("a", "b") + strings.ReplaceAll(texts("c"), "null", `"stop"`), 1},
		"a large text":         {texts("a", strings.Repeat("b", 1000)), 0},
		"after a marker":       {texts("a", "b") + markerChunk("💻", "ls") + texts("\n\n", "c", "d"), 2},
		"an error in a choice": {strings.ReplaceAll(texts("a", "b"), `"index": 0`, `"index": 0, "error": "sk-12345678"`), 0},
		"usage in each":        {strings.ReplaceAll(texts("a", "b", "c"), "}\n\n", realUsage+"}\n\n"), 0},
		"an open tool":         {g2Start("t", "💻", "l", "call_1") + texts("a", "b", "c"), 0},
		"text repeated":        {strings.ReplaceAll(texts("a", "a", "a"), `"delta"`, `"text": "a", "delta"`), 0},
		"after the finish":     {texts("a", "b") + finishChunk("stop", realUsage) + texts("c", "d"), 1},
	} {
		s, passed := New(&Options{}, chatParams), 0
		for _, frame := range frames(role() + c.in) {
			s.chat.Begin(nil, epoch)
			if s.chat.Pass([]byte(frame), 1<<10) > 0 {
				passed++
				same(t, string(s.chat.Out.Take()), frame, "bytes")
				continue
			}
			s.Feed(nil, []byte(frame), epoch)
		}
		if passed != c.want {
			t.Errorf("%s: %d frames are not read, want %d", name, passed, c.want)
		}
	}
}

// An error in a choice loses its secrets in each of several frames that are alike.
func TestLikeFramesWithSecrets(t *testing.T) {
	frames := strings.ReplaceAll(texts("a", "b", "c"), `"index": 0`, `"index": 0, "error": {"message": "sk-12345678abcdef"}`)
	if out := repair(role() + text("x") + frames + stop()); strings.Contains(out, "sk-1234") || strings.Count(out, redacted) != 3 {
		t.Errorf("secrets are left in\n%s", out)
	}
}

// TestFramesThatDifferInOneByte leave as if they were read, wherever that byte is, and so
// do those after them: in one read, and frame by frame.
func TestFramesThatDifferInOneByte(t *testing.T) {
	for _, frame := range []string{text(`a\n`), reasoning("\u00e9"), markerChunk("\U0001f4bb", "ls")} {
		before := role() + texts("a", "b") + frame + frame
		for i := range frame {
			for _, b := range []string{"", "\"", "1"} {
				in := before + frame[:i] + b + frame[i+1:] + frame + text("c")
				cuts := []int{len(before), len(frame) - 1 + len(b), len(frame)}
				byPiece := func(n int) int {
					if len(cuts) > 0 {
						n, cuts = min(n, cuts[0]), cuts[1:]
					}
					return n
				}
				for _, cut := range []cutter{inOne, byPiece} {
					if follow(t, in, Options{}, chatParams, cut, CauseAborted); t.Failed() {
						t.Fatalf("%q in the place of %q", b, frame[i])
					}
				}
			}
		}
	}
}

// likeTokens are what FuzzAlike makes texts of, as they stand in JSON.
var likeTokens = []string{
	`a`, ` `, `word`, `\n`, `\n\n`, `\u000a`, "`", `\u0060`, `<`, `\u003c`, `\u003C`, `think>`, `</think>`, "```", `~~~`, `\"`, `\\`, `\u00e9`, `é`,
	`\ud83d\udcbb`, `💻`, `\t`, `\r`, `\u00a0`, "\x00", "\n", `"`, `"}`, `\`, `\u`, `\u00`, `\q`, "\xff", "`💻 ls`", "\\n`💻 ls`\\n", `: `,
	`Provider said: `, `sk-abcdefgh`, `P\u0072ovider said: sk-abcdefgh`,
}

// FuzzAlike: whatever comes between and inside like frames, they leave as if they
// were read, and what is known is the same.
func FuzzAlike(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 2, 1, 0, 5, 9, 14, 5, 0, 0}, []byte{0}, byte(0), byte(0))
	f.Add([]byte{0, 0, 1, 0, 1, 4, 6, 0, 1, 0, 3, 0, 0, 8, 12}, []byte{200, 3, 17}, byte(3), byte(9))
	f.Add([]byte{16, 0, 16, 1, 17, 3, 32, 0, 1, 0, 2, 35, 7, 4, 0, 0, 0, 2}, []byte{1}, byte(5), byte(20))
	f.Fuzz(func(t *testing.T, script, cuts []byte, options, limit byte) {
		if len(script) > 200 { // more takes seconds, and "go test -fuzz" takes 10 s for a hang
			return
		}
		all := allOptions()
		o := all[int(options)%len(all)]
		if limit > 0 {
			o.MaxFrame = 100 + int(limit)*4
		}
		follow(t, likeStream(script), o, chatParams, byScript(cuts), Cause(options%4))
	})
}

// likeStream is the stream that a script says: mostly frames of text that are
// alike.
func likeStream(script []byte) string {
	var b strings.Builder
	next := func() byte {
		if len(script) == 0 {
			return 0
		}
		c := script[0]
		script = script[1:]
		return c
	}
	between := []string{
		role(), keepalive, delta(""), g1("terminal", "💻", "ls"), g2Start("t", "💻", "l", "call_1"), g2End("t", "call_1"), "\n", "\r\n", "data: x\n\n", ": c\n",
		finishChunk("stop", realUsage), doneFrame, named("x", "{}"), `data: {"error": {"message": "m"}}` + "\n\n", "data: {", markerChunk("💻", "ls"), text("<think>"), text("</think>\n"),
	}
	for len(script) > 0 {
		kind := next()
		if kind >= 224 {
			b.WriteString(between[int(next())%len(between)])
			continue
		}
		var inner strings.Builder
		for range kind & 3 {
			inner.WriteString(likeTokens[int(next())%len(likeTokens)])
		}
		frame := delta(`"content": "` + inner.String() + `"`)
		switch kind >> 2 & 15 {
		case 1:
			frame = delta(`"reasoning_content": "` + inner.String() + `"`)
		case 2:
			frame = strings.ReplaceAll(frame, `"index": 0`, `"index": 1`)
		case 3:
			frame = strings.ReplaceAll(frame, "chatcmpl-1", "chatcmpl-2")
		case 4:
			frame = strings.ReplaceAll(frame, "\n\n", "\r\n\r\n")
		case 5:
			frame = strings.ReplaceAll(frame, "null", `"length"`)
		case 6:
			frame = strings.ReplaceAll(frame, `"delta": {`, `"delta": {"role": "assistant", `)
		case 7, 8:
			frame = delta(`"content": "\n` + "`💻 " + inner.String() + "`" + `\n"`)
		}
		b.WriteString(frame)
	}
	return b.String()
}
