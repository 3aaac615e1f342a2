package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

func TestRealMarkers(t *testing.T) {
	more := func(content string) string { // a chunk that says more
		return `data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "x": [1, 2.50], "choices": [ {"index": 0, ` +
			`"logprobs": {"content": [1]}, "delta": { "role": "assistant", "content": "` + content + `" }, "finish_reason": null}], "y": "\u00e9"}` + "\n\n"
	}
	rows := map[string]row{
		"beside other members": {in: more(`\n`+"`💻 ls`"+`\n`) + text("z") + stop(),
			o: Options{Progress: ProgressOff}, out: more("") + text("z") + stop()},
		"in a text beside other members": {in: more(`a\n`+"`💻 ls`"+`\n\nb\u00e9`) + stop(), out: more(`a\nb\u00e9`) + stop()},
		"of any length": {in: markerChunk("🐍", strings.Repeat("print('x'); ", 8000)) + text("\n\nok") + stop(),
			starts: "🐍 " + strings.Repeat("print('x'); ", 8000), content: "\n\nok"},
		"inside an open fence": {in: text("```\ncode") + markerChunk("💻", "ls") + text("\n\nb") + stop(),
			starts: "💻 ls", content: "```\ncode\n\nb"},
		"in another choice": {in: turn(ofChoice(1, markerChunk("💻", "ls")), ofChoice(1, finishChunk("stop", ""))),
			out: passes},
		"beside another choice": {in: role() + choicesChunk(`{"index": 0, "delta": {"content": "\n`+"`💻 ls`"+`\n"}}, {"index": 1, "delta": {"content": "x"}}`, "") +
			ofChoice(1, finishChunk("stop", "")) + stop(), out: passes},
		"after a tool event, of an unknown emoji": {in: turn(toolOfUpstream + markerChunk("🦄", "x")),
			o: Options{Progress: ProgressBare}, out: passes},
		"after a tool event of G1": {in: g1("terminal", "💻", "id") + text("a") + markerChunk("📖", "x.go") + text("b") + stop(),
			o: Options{Imitations: ImitationsStrip}, starts: "💻 id", content: "a\nb"},
		"after a tool event": {in: toolOfUpstream + text("a") + markerChunk("📖", "x.go") + text("b") + stop(),
			o: Options{Imitations: ImitationsStrip}, starts: "💻 l", content: "a\nb"},
		"after an internal tool event": {in: g1("_thinking", "💭", "hm") + text("a") + markerChunk("📖", "x.go") + text("b") + stop(),
			starts: nothing, content: "a\nb"},
		"right before an imitation": {in: turn(markerChunk("📖", "x") + text("`💻 ls`\nb")),
			starts: "📖 x", content: "b"},
		// A marker ends the line before it. If that closes a fence, what follows is not code.
		"after a closing fence, a tag": {in: turn(texts("```\na\n", "```", "\n`💻 ls`\n", "<think>x</think>y")),
			content: "```\na\n```\ny", reasoning: "x"},
		"after a closing fence, an imitation": {in: turn(texts("```\na\n", "```", "\n`💻 ls`\n", "`💻 x`\ny")),
			content: "```\na\n```\ny", reasoning: nothing},
		"after a closing fence, both": {in: turn(texts("```\na\n", "```", "\n`💻 ls`\n", "`💻 x`\n<think>x</think>y")),
			content: "```\na\n```\ny", reasoning: "x"},
		"after an opening fence, a tag": {in: turn(texts("```", "\n`💻 ls`\n", "<think>x</think>y")),
			content: "```\n<think>x</think>y"},
		"before a fence and an imitation": {in: texts("abc", "\n`💻 ls`\n", "```\n", "a\n`💻 c`\n") + stop(),
			starts: "💻 ls"},
	}
	for _, c := range [][2]string{{"\r\n", "\r\n"}, {"\n", "\r\n"}, {"\r\n", "\n"}} {
		rows[fmt.Sprintf("in lines that end with %q", c)] = row{in: turn(texts("Hm.", c[0]+"`🦄 ls`"+c[1], "\r\n\r\nDone.")),
			starts: "🦄 ls", content: "Hm.\r\n\r\nDone."}
	}
	rows["a selector for text"] = row{in: turn(texts("Hm.", "\n`⚙\ufe0e x`\n", "\n\nDone.")), starts: "⚙\ufe0e x", content: "Hm.\n\nDone."}
	rows["with white space at its end"] = row{in: turn(texts("Hm.", "\n`💻 ls` \n", "Done.")), starts: nothing, content: "Hm.\nDone."} // Hermes writes none
	for _, marker := range []string{
		"💻 ls -la", "💻 echo `date` `` x", `💻 grep "a\b" 'c'`, "📖 <script>alert(1)</script>&amp;", "⚙️ restart", "⏰ 09:00",
		"💻 ``", // looks like a fence
	} {
		rows[marker] = row{in: turn(texts("Hm.", "\n`"+marker+"`\n", "\n\nDone.")), starts: marker, content: "Hm.\n\nDone."}
	}
	check(t, rows)
}

// toolOfUpstream has tool events of upstream's, after which no chunk is a real marker.
var toolOfUpstream = g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1")

// strips are contents and what is left of them.
var strips = []struct{ name, content, want string }{
	{"in the middle", "a\n`💻 ls`\nb", "a\nb"},
	{"an empty line after", "a\n`💻 ls`\n\nb", "a\nb"},
	{"two empty lines after", "a\n`💻 ls`\n\n\nb", "a\n\nb"},
	{"an empty line before", "a\n\n`💻 ls`\nb", "a\n\nb"},
	{"at the start of the message", "`💻 ls`\nb", "b"},
	{"at the start, an empty line after", "`💻 ls`\n\nb", "b"},
	{"at the end", "a\n`💻 ls`\n", "a\n"},
	{"at the end without a newline", "a\n`💻 ls`", "a\n"},
	{"the whole message", "`💻 ls`", ""},
	{"two in a row", "a\n`💻 ls`\n`📖 x`\nb", "a\nb"},
	{"two with an empty line between", "a\n`💻 ls`\n\n`📖 x`\n\nb", "a\nb"},
	{"three with empty lines", "a\n\n`💻 1`\n\n`💻 2`\n\n`💻 3`\n\nb", "a\n\nb"},
	{"text between", "a\n`💻 1`\nb\n`💻 2`\nc", "a\nb\nc"},
	{"with U+FE0F", "a\n`⚙️ x`\nb", "a\nb"},
	{"without U+FE0F where the table has it", "a\n`⚙ x`\nb", "a\nb"},
	{"a label of one backtick", "a\n`💻 ``\nb", "a\nb"},
	{"backticks in the label", "a\n`💻 echo `date` x`\nb", "a\nb"},
	{"inside a backtick fence", "a\n```\n`💻 ls`\n```\nb", "a\n```\n`💻 ls`\n```\nb"},
	{"inside an unclosed fence", "```sh\n`💻 ls`\nb", "```sh\n`💻 ls`\nb"},
	{"after a closed fence", "```\nx\n```\n`💻 ls`\nb", "```\nx\n```\nb"},
	{"after backticks that open no fence", "```⚙ `\n`💻 ls`\nb", "```⚙ `\nb"}, // CommonMark 4.5
	{"after more of them", "````⚙ ```\n`💻 ls`\nb", "````⚙ ```\nb"},
	{"inline code", "a `💻 ls` b", "a `💻 ls` b"},
	{"inline code at the start of a line", "a\n`💻 ls` b\n", "a\n`💻 ls` b\n"},
	{"inline code at the end of a line", "a `💻 ls`\nb", "a `💻 ls`\nb"},
	{"with U+FE0E", "a\n`⚙\ufe0e x`\nb", "a\nb"},
	{"with U+FE0E where the table has no selector", "a\n`💻\ufe0e x`\nb", "a\nb"},
	{"CR LF", "a\r\n`💻 ls`\r\nb", "a\r\nb"},
	{"CR LF, an empty line after", "a\r\n`💻 ls`\r\n\r\nb", "a\r\nb"},
	{"CR LF, two empty lines after", "a\r\n`💻 ls`\r\n\r\n\r\nb", "a\r\n\r\nb"},
	{"CR LF, two in a row", "a\r\n`💻 ls`\r\n`📖 x`\r\nb", "a\r\nb"},
	{"CR LF at the start", "`💻 ls`\r\nb", "b"},
	{"CR LF at the end", "a\r\n`💻 ls`\r\n", "a\r\n"},
	{"CR LF around an LF", "a\r\n`💻 ls`\n\r\nb", "a\r\nb"},
	{"LF around a CR LF", "a\n`💻 ls`\r\n\nb", "a\nb"},
	{"CR at the end", "a\n`💻 ls`\r", "a\n"},
	{"white space at the end", "a\n`💻 ls`  \nb", "a\nb"},
	{"white space of all kinds", "a\n`💻 ls` \t\u00a0\u2003\r\n\nb", "a\nb"},
	{"white space at the end of all", "a\n`💻 ls` \t", "a\n"},
	{"white space and text", "a\n`💻 ls`  x\nb", "a\n`💻 ls`  x\nb"},
	{"white space for a label", "a\n`💻 ` \nb", "a\n`💻 ` \nb"},
	{"a CR and text", "a\n`💻 ls`\rx\nb", "a\n`💻 ls`\rx\nb"},
	// What is in front of it has left, and stays a line.
	{"indented", "a\n `💻 ls`\nb", "a\n \nb"},
	{"indented by three", "a\n\u00a0  `💻 ls`  \r\n\r\nb", "a\n\u00a0  \n\r\nb"},
	{"indented, two in a row", "a\n  `💻 ls`\n  `📖 x`\nb", "a\n  \n  \nb"},
	{"indented, at the start", "  `💻 ls`\nb", "  \nb"},
	{"indented, at the end", "a\n  `💻 ls`", "a\n  "},
	{"indented after one that is not", "a\n`💻 ls`\n\n  `📖 x`\nb", "a\n  \nb"},
	{"indented code", "a\n\n    `💻 ls`\nb", "a\n\n    `💻 ls`\nb"},
	{"indented by a tab", "a\n\n\t`💻 ls`\nb", "a\n\n\t`💻 ls`\nb"},
	{"indented in a fence", "```\n  `💻 ls`\n```\nb", "```\n  `💻 ls`\n```\nb"},
	{"a lone emoji", "a\n`💻`\nb", "a\n`💻`\nb"},
	{"an unknown emoji", "a\n`🦄 ls`\nb", "a\n`🦄 ls`\nb"},
	{"no emoji", "a\n`git status`\nb", "a\n`git status`\nb"},
	{"not closed", "a\n`💻 ls\nb", "a\n`💻 ls\nb"},
	{"two backticks before", "a\n``💻 ls`\nb", "a\n``💻 ls`\nb"},
	{"a newline in the emoji", "a\n`💻\n ls`\nb", "a\n`💻\n ls`\nb"},
	{"text and a newline alone", "a\n\n\nb\n", "a\n\n\nb\n"},
}

// The model strips them as the table says, and FuzzContent strips as the model does, however they are cut.
func TestImitationsAreStripped(t *testing.T) {
	for _, s := range strips {
		equal(t, withoutImitations(s.content), s.want, s.name)
	}
}

// In an open fence no line is an imitation. Unlike CommonMark (4.5) any indentation may be before a fence.
func TestFencesOpenAndClose(t *testing.T) {
	for open, texts := range map[bool][]string{
		true: {
			"```\n", "```go\n", "~~~\n", "~~~ go `x`\n", "  ```\n", "\t```\n", "```\n\n\n", "text\n\n```\ncode\n\n", "```\nx```\n", "```\nx\n``` y\n",
			"````\nx\n```\n", "```\nx\n~~~\n", "~~~\nx\n```\n", "```\nx\n```\n```\n", "```\nx\n```y```\n",
		},
		false: {
			"", "``\n", "~~\n", "a ```\n", "``` go `x`\n", "```x```\n", "```\nx\n```\n", "```\nx\n```  \n", "```\nx\n  ```\n", "```\nx\n````\n", "~~~\nx\n~~~\n",
		},
	} {
		for _, before := range texts {
			in := before + "`💻 ls`\nb"
			want := map[bool]string{true: in, false: before + "b"}[open]
			for _, n := range []int{1, len(in)} {
				equal(t, look(t, repair(turn(deltasOf(in, n)))).content, want, "the content")
			}
			equal(t, withoutImitations(in), want, "the content in the model")
		}
	}
}

// gitmoji is an answer with lines that look like markers, as users ask for.
const gitmoji = "Suggested commit messages (gitmoji):\n\n`⚡ improve performance`\n\n`🎨 improve structure`\n\n`📝 update docs`\n"

// Imitations are stripped as long as upstream is not known to send tool events (contract section 1, auto).
func TestImitationsOfUpstreamsThatSendEvents(t *testing.T) {
	const stripped = "Suggested commit messages (gitmoji):\n\n"
	event, marker := g2Start("t", "💻", "l", "call_1")+g2End("t", "call_1"), markerChunk("💻", "ls")
	for name, c := range map[string]struct {
		known    bool
		o        Options
		in       string // before the text
		want     string
		remember bool // that upstream sends tool events
	}{
		"not known":                     {want: stripped},
		"known":                         {known: true, want: gitmoji, remember: true},
		"shown before the text":         {in: event, want: gitmoji, remember: true},
		"shown by G1":                   {in: g1("terminal", "💻", "ls"), want: gitmoji, remember: true},
		"with a status it has not":      {in: named(progressEvent, `{"tool": "t", "status": "queued"}`), want: gitmoji, remember: true},
		"by the end of an unknown tool": {in: g2End("t", "call_1"), want: stripped},
		"by an internal tool":           {in: g1("_thinking", "💭", "hm"), want: stripped},
		"a marker":                      {in: marker, want: stripped},
		"an old one came back":          {known: true, in: text("a") + marker, want: "a\n" + stripped},
		"strip":                         {known: true, o: Options{Imitations: ImitationsStrip}, want: stripped, remember: true},
		"trust":                         {known: true, o: Options{Imitations: ImitationsTrust}, want: stripped, remember: true},
		"keep":                          {o: Options{Imitations: ImitationsKeep}, want: gitmoji},
		"events that do not leave":      {o: Options{Progress: ProgressOff}, in: event, want: gitmoji, remember: true}, // the memory knows
	} {
		for _, n := range []int{1, 3, 8, 30, 500} { // no delta is a marker
			for _, cut := range []cutter{inOne, oneByte} {
				in, m := role()+c.in+deltasOf(gitmoji, n)+stop(), memory{"events": c.known}
				p := chatParams
				p.Usage = m
				out, sum := run(in, c.o, p, cut, CauseEOF)
				equal(t, look(t, out).content, c.want, name)
				equal(t, sum.Imitations > 0 || sum.Tools >= 3, c.want != gitmoji, name+": something is stripped")
				equal(t, m["events"], c.remember, name+": it is remembered that upstream sends tool events")
				if c.known && c.in == "" && c.want == gitmoji {
					same(t, out, in, name)
				}
			}
		}
	}
}

// What is not streamed follows what the streams have shown.
func TestImitationsInAnswersOfUpstreamsThatSendEvents(t *testing.T) {
	in := completion(content(gitmoji), "stop", realUsage)
	for name, c := range map[string]struct {
		usage UsageMemory
		o     Options
		stays bool
	}{
		"known": {memory{"events": true}, Options{}, true}, "not known": {memory{}, Options{}, false}, "no memory": {nil, Options{}, false},
		"strip": {memory{"events": true}, Options{Imitations: ImitationsStrip}, false}, "keep": {nil, Options{Imitations: ImitationsKeep}, true},
	} {
		a := RepairAnswer([]byte(in), &c.o, c.usage)
		equal(t, string(a.Body) == in, c.stays, name)
		equal(t, a.Imitations, map[bool]int{false: 3}[c.stays], name)
	}
}

func TestImitations(t *testing.T) {
	trust := Options{Imitations: ImitationsTrust}
	counted := func(s string) string { // with a usage that is not the last
		return strings.Replace(text(s), "}\n\n", `, "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}}`+"\n\n", 1)
	}
	added, err := NewTools(map[string]string{"🛰️": "satellite"})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{
		"spread": {in: turn(texts("Sure\n", "`💻", " ls`", "\ndone")), starts: nothing, content: "Sure\ndone"},
		"trusted, merged": {in: turn(texts("Sure\n`💻 ls -la`\ndone")),
			o: trust, starts: "💻 ls -la", content: "Sure\ndone", end: "stop"},
		"trusted, spread": {in: turn(texts("Sure\n", "`", "💻", " ls -la", "`", "\n", "done")),
			o: trust, starts: "💻 ls -la", content: "Sure\ndone"},
		"trusted, text after it is an answer": {in: turn(texts("Sure\n`💻 ", "ls`\n\ndone\n`", "x")),
			o: trust, end: "stop"},
		"trusted, at the end": {in: turn(texts("Sure\n`💻 ls", " -la`\n")),
			o: trust, starts: "💻 ls -la", end: CodeEmpty},
		"trusted, in parallel": {in: turn(texts("Hm.\n`💻 a`\n`📖 b`\n", "Done.")),
			o: trust, story: "other text running running completed completed text finish done"},
		"trusted, in deltas": {in: turn(texts("Hm.\n", "`💻 ", "a`\n`📖", " b`\n", "Done.")),
			o: trust, story: "other text running running completed completed text finish done"},
		"trusted, after a held line": {in: texts("a\n`💻 c`", "a\n`📖 b`\nc") + stop(),
			o: trust, starts: "📖 b"},
		"trusted, ended by reasoning": {in: turn(text("Sure\n`💻 ls`") + reasoning("hm") + text("\ndone")),
			o: trust, starts: "💻 ls", content: "Sure\ndone"},
		"trusted, ended by a tool": {in: turn(text("Sure\n`💻 ls`") + toolOfUpstream + text("\ndone")),
			o: trust, starts: "💻 ls, 💻 l", content: "Sure\ndone"},
		"trusted, ended by a call": {in: turn(text("Sure\n`💻 ls`") + delta(`"tool_calls": [{"id": "c"}]`) + text("\ndone")),
			o: trust, starts: "💻 ls", content: "Sure\ndone"},
		// A hop between Hermes and the sidecar has merged what Hermes sends one by one.
		"merged markers": {in: turn(text("\n`💻 ls`\nSome real text\n`📖 f`\n") + text("\n\nend")),
			content: "\nSome real text\n\nend", starts: nothing},
		"merged markers, trusted": {in: turn(text("\n`💻 ls`\nSome real text\n`📖 f`\n") + text("\n\nend")),
			o: trust, starts: "💻 ls, 📖 f"},
		"two merged markers, trusted": {in: turn(text("\n`💻 a`\n\n`📖 b`\n") + text("\n\nend")),
			o: trust, starts: "💻 a, 📖 b"},
		"a whole chunk, kept": {in: turn(toolOfUpstream + markerChunk("📖", "x")),
			o: Options{Imitations: ImitationsKeep, Progress: ProgressBare, EmptyAnswer: EmptyAnswerPass}, out: passes},
		"merged, unknown": {in: turn(text("\n`🦄 a`\nText\n`🦄 b`\n") + text("\n\nend")), out: passes},
		"merged, unknown, trusted": {in: turn(text("\n`🦄 a`\nText\n`🦄 b`\n") + text("\n\nend")),
			o: trust, out: passes},
		"prose about tools": {in: turn(texts("`💻 term", "inal` and `", "📖 read_file`\n")), out: passes},
		"in a finish chunk": {in: role() + text("a\n`💻") + finishChunkWith(`"content": " ls`+"`"+`"`, "stop", realUsage) + doneFrame,
			content: "a\n", end: "stop"},
		"a pair of surrogates in two": {in: turn(delta("\"content\": \"a\\n`\\ud83d\""), delta("\"content\": \"\\udcbb ls`\\nb\"")),
			content: "a\nb", starts: nothing},
		"a pair of surrogates in two, trusted": {in: turn(delta("\"content\": \"a\\n`\\uD83D\""), delta("\"content\": \"\\uDCBB ls`\\nb\"")),
			o: trust, content: "a\nb", starts: "💻 ls"},
		"a pair of no tool's in two": {in: turn(delta("\"content\": \"a\\n`\\ud83d\""), delta("\"content\": \"\\ude00 ls`\\nb\"")), out: passes},
		"half a pair":                {in: turn(delta("\"content\": \"a\\n`\\ud83d\""), text(" ls`\nb")), out: passes},
		"held back when upstream shows that it sends events": {in: turn(texts("a\n`🎨 x`\n", "`🎨 y`"), toolOfUpstream, text("\nb")),
			content: "a\n`🎨 y`\nb"}, // the first line has left
		"a whole chunk after an event": {in: turn(toolOfUpstream, text("a"), markerChunk("🎨", "x"), text("b")),
			o: Options{Progress: ProgressBare}, out: passes},
		"ended by a tool event":                      {in: text("abc\n`💻 x`") + toolOfUpstream + text("`💻 y`\nz") + stop()},
		"a held line, then a finish chunk with text": {in: g2Start("t", "💻", "l", "1") + text("a\n`💻 c`") + finishChunkWith(`"content": "end"`, "stop", realUsage) + doneFrame},
		"an orphan within":                           {in: text("a\n`💻 c`x") + g2End("t", "orphan") + text("`\nb") + stop()},
		"an internal tool within":                    {in: text("a\n`💻 c`x") + g1("_thinking", "💭", "hm") + text("`\nb") + stop()},
		"a chunk without choices within": {in: turn(text("a\n`💻 l") + choicesChunk("", "") + text("s`\nb")),
			content: "a\nb"},
		"usage in each chunk": {in: turn(counted("a\n`💻 l") + counted("s`\nb")), content: "a\nb"},
	}
	for _, e := range append(knownEmoji, "🛰️") {
		bare := strings.TrimSuffix(e, "\ufe0f")
		for _, form := range []string{e, bare, bare + "\ufe0f", bare + "\ufe0e"} {
			rows["emoji "+form] = row{in: turn(text("a\n`" + form + " x`\nb")), o: Options{Tools: added},
				content: "a\nb"}
		}
	}
	check(t, rows)
}

func TestTextIsHeldOnlyWhileItAgreesWithAMarker(t *testing.T) {
	for want, contents := range map[bool][]string{
		true: {"`", "a\n`", " `", "a\n   `💻", "a\n`💻 ls` \t", "a\r\n`💻 ls`\r", "a\n`💻", "a\n`💻 ", "a\n`💻 ls", "a\n`💻 ls`", "a\n`⚙\ufe0f", "\n`💻 ls` and "}, // to the end of the line: the label may go on
		false: {
			"a\n", "\n", "\n\n", "a\n\n", "a", "a `", "\r", "a\r\n", "a\n ", "a\n   ", "    `", "a\n\t`💻 ls", "a\n   `g", "a `💻 ls", "\n`g", "\n`🦄", "\n`💻x", "\n``", "\n`💻`",
			"```\n`💻 ls", "~~~\n`💻 ls", "\n`💻 ls\n", "\n💻",
		},
	} {
		for _, content := range contents {
			s := New(&Options{}, chatParams)
			feedAll(s, role(), inOne)
			equal(t, len(feedAll(s, text(content), inOne)) == 0, want, "held after "+content)
		}
	}
}

func TestHeldLineIsBoundedTo4KiB(t *testing.T) {
	for size, stripped := range map[int]bool{4095: true, 4096: true, 4097: false, 10000: false} {
		line := "`💻 " + strings.Repeat("x", size-len("`💻 `")) + "`"
		in := "a\n" + line + "\nb"
		want := "a\nb"
		if !stripped {
			want = in
		}
		for _, n := range []int{1, 100, 20000} {
			v := look(t, repair(role()+deltasOf(in, n)+stop()))
			equal(t, v.content, want, "the content")
		}
	}
	equal(t, marker.MaxHeldLine, 4096, "MaxHeldLine")
}

// Whole frames are held, in order with the frames between them, and leave byte for byte.
func TestHeldFrames(t *testing.T) {
	x, small := strings.Repeat("x", 1000), Options{MaxFrame: 900}
	begun, large := role()+text("a\n`💻 l"), text(x)
	const counted = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}` + "\n\n"
	check(t, map[string]row{
		"no marker": {in: turn(texts("Sure.\n`", "💻", " ls", "`", " is a command\n")), out: passes},
		"longer than 4 KiB": {in: turn(text("`💻 ") + strings.Repeat(text(strings.Repeat("x", 100)), 50) + text("`\n")),
			out: passes},
		"comments": {in: turn(text("a\n`💻") + comment + text(" ls") + delta("") + text("` no\n")),
			out: passes},
		"comments in what is stripped": {in: turn(text("a\n`💻") + comment + text(" ls") + delta("") + text("`\n") + text("z")),
			out: role() + text("a\n") + comment + delta("") + text("z") + stop()},
		"before a tool event": {in: begun + toolOfUpstream + text("\n\nb") + stop(),
			o: Options{Progress: ProgressBare}, out: passes},
		"before a finish": {in: begun + stop(), out: passes},
		"before the end":  {in: begun, story: "other text error finish done", content: "a\n`💻 l"},
		"before [DONE]":   {in: begun + doneFrame, story: "other text error finish done", content: "a\n`💻 l"},
		"CRLF": {in: inCRLF(role() + texts("a\n`💻", " ls", "`\n", "b") + stop()),
			out: inCRLF(role() + texts("a\n", "b") + stop())},
		"as large as max_frame together": {in: text("`💻 ls") + text("`\n") + text("x") + stop(),
			o: Options{MaxFrame: len(text("`💻 ls"))}, content: "x"},
		"larger than max_frame together": {in: text("`💻 ls") + ": c\n\n" + text("`\n") + text("x") + stop(),
			o: Options{MaxFrame: len(text("`💻 ls"))}, out: passes},
		// A frame that passes unexamined is, for all that is known, text: nothing is owed after it, and nothing goes.
		"a marker, then a large frame": {in: turn(text("Hello"), markerChunk("💻", "ls"), large, text("World")), o: small,
			content: "Hello" + x + "World"},
		"an imitation, then a large frame": {in: turn(text("Hello\n`📖 a`\n"), markerChunk("💻", "ls"), large, text("\nWorld")), o: small,
			content: "Hello\n" + x + "\nWorld"},
		// With usage the chunk waits for the frame after it, which may be shorter.
		"with usage, before [DONE]":       {in: role() + fmt.Sprintf(counted, "`💻 ls") + doneFrame, content: "`💻 ls"},
		"a tag with usage, before [DONE]": {in: role() + fmt.Sprintf(counted, "<thin") + doneFrame, content: "<thin"},
	})
	s := New(&Options{}, chatParams)
	feedAll(s, role(), inOne)
	in := texts("Sure.\n`", "💻", " ls", "`")
	equal(t, string(feedAll(s, in, inOne)), "", "what leaves while the line is open")
	same(t, string(s.Feed(nil, []byte(text(" is a command\n")), epoch)), in+text(" is a command\n"), "held frames")
	feedAll(s, text("`💻 ")+strings.Repeat(text(strings.Repeat("x", 100)), 42), inOne)
	same(t, string(s.Feed(nil, []byte(text("x")), epoch)), text("x"), "what leaves after 4 KiB")
}

// piecesOf returns a message in pieces: M is a marker of its own, E a tool event, R a reasoning delta, Q are
// empty frames, all else is text.
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
			b.WriteString(comment + delta("") + delta(`"content": ""`))
		default:
			b.WriteString(text(p))
		}
	}
	return b.String()
}

// apart are messages and their text without markers: no text runs into another, and no marker stays (contract
// section 1). FuzzApart finds the others.
var apart = []struct {
	pieces []string
	want   string
}{
	{[]string{"Hello", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "Q", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", " ", "World"}, "Hello\n World"},
	{[]string{"Hello", "M", "\u00a0World"}, "Hello\n\u00a0World"},
	{[]string{"\n", "M", "World"}, "\n\nWorld"},
	{[]string{"Hello", "M"}, "Hello"},
	{[]string{"M", "World"}, "World"},
	{[]string{"M", "\nWorld"}, "\nWorld"},
	{[]string{"Hello", "M", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "R", "World"}, "Hello\nWorld"},
	{[]string{"R", "M", "World"}, "World"},

	{[]string{"Hello", "M", "`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a", "E", "b"}, "Hello\n`📖 ab"},
	{[]string{"Hello", "M", "`🦄 a`\nb"}, "Hello\n`🦄 a`\nb"},
	{[]string{"Hello", "M", "`📖 a` and `💻 b`\n", "b"}, "Hello\n`📖 a` and `💻 b`\nb"},
	{[]string{"Hello", "M", "```\n`📖 a`\n```\n", "b"}, "Hello\n```\n`📖 a`\n```\nb"},
	{[]string{"Hello\n", "M", "```⚙", "` x\n`📖 a`\nb"}, "Hello\n\n```⚙` x\nb"},
	{[]string{"Hello\n`📖 x`\n", "`", "`` `\n`📖 a`\nb"}, "Hello\n``` `\nb"},
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
	t.Parallel()
	heal := func(said string) string {
		healed, _ := whole.StripMarkers(jsonspan.Inside(jsonspan.Quote(said)), marker.Hermes)
		return jsonspan.Unquote(append(append([]byte{'"'}, healed...), '"'))
	}
	for _, c := range apart {
		in, small := role()+piecesOf(c.pieces...), role()+texts("Once", " upon", " a time. ")
		for _, p := range c.pieces {
			small += piecesOf(map[bool][]string{true: {p}, false: strings.Split(p, "")}[len(p) < 2]...)
		}
		// One rune in each delta is the same, if the message has no other beginning: frames that are alike take a
		// shortcut.
		strip := Options{Imitations: ImitationsStrip} // also after an event
		if !slices.Contains([]string{"M", "R", "\n", "<think>a</think>"}, c.pieces[0]) {
			equal(t, look(t, repairWith(small+stop(), strip)).content, "Once upon a time. "+c.want, c.pieces)
		}
		// Upstream's text, healed as a history, is the text that the client got, and that needs no healing
		// (contract section 5). A history does not show where an event ended a line.
		if said := look(t, in).content; !strings.Contains(said, "<think>") && !slices.Contains(c.pieces, "E") {
			equal(t, strings.TrimRight(heal(said), "\n"), strings.TrimRight(c.want, "\n"), c.pieces)
			got := look(t, repair(in+stop())).content
			equal(t, heal(got), got, c.pieces)
		}
		for _, o := range allOptions() {
			if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep || slices.Contains(c.pieces, "E") && (o.Progress == ProgressOff || o.Imitations != ImitationsStrip && o.Imitations != ImitationsTrust) {
				continue // an event that does not leave ends no line, and one that leaves makes auto keep lines
			}
			out, _ := anyCut(t, in+stop(), o, chatParams, CauseEOF)
			equal(t, look(t, out).content, c.want, c.pieces)
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(in, o, chatParams, inOne, CauseAborted)
			equal(t, look(t, cut).content, c.want, c.pieces)
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", c.pieces, o, out)
			}
		}
	}
}

// apartTokens are what FuzzApart makes a message of: each in a chunk of its own,
// or, where it follows a +, in one with the token before.
var apartTokens = []string{
	"M", "M", "Q", "+", "+", "+", "Hello", "World", "\n", "\n\n", " ", "`📖 a`", "`⚙ y`\n", "\n`💻 b`", "`💻", " c`", "`", "` x", "`git`", "\n`📖 d`\n", "é", "\r\n", "\r\n`📖 e`\r\n",
}

var indentedMarker = regexp.MustCompile("(?m)^[^\\S\n]+`[^a-z]")

// FuzzApart: a message without markers is what is left of it when they are taken out
// of the whole text, as of a history, but for the newlines at its ends.
func FuzzApart(f *testing.F) {
	f.Add([]byte{6, 0, 11, 0, 8, 7})
	f.Add([]byte{6, 0, 11, 2, 8, 3, 12, 3, 7})
	f.Add([]byte{6, 8, 11, 0, 0, 12, 8, 7, 0, 14, 15, 6})
	f.Add([]byte{6, 0, 12, 4, 16, 17, 0, 10, 7})
	for script := range scripts(400, 16) {
		f.Add(script)
	}
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
			if _, ok := marker.Whole(jsonspan.Inside(jsonspan.Quote(p))); ok {
				if _, line := isMarkerLine(strings.Trim(p, "\r\n")); !line {
					return // in a text it would be prose about tools
				}
			}
		}
		in := role() + piecesOf(list...) + stop()
		said := look(t, in).content
		if strings.Contains(said, "```") || indentedMarker.MatchString(said) {
			return // a real marker also goes from a fence; an indented one leaves its line in a stream
		}
		want, _ := withoutMarkers(said)
		for _, o := range []Options{{}, {Imitations: ImitationsTrust}, {Progress: ProgressOff, EmptyAnswer: EmptyAnswerPass}} {
			out := repairWith(in, o)
			got := look(t, out).content
			lines := strings.NewReplacer("\r\n", "\n") // which of two newlines stays differs
			same(t, strings.Trim(lines.Replace(got), "\n"), strings.Trim(lines.Replace(want), "\n"), "contents")
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(in, o, chatParams, oneByte, CauseEOF)
			same(t, cut, out, "outputs of two cuts")
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", list, o, out)
			}
		}
	})
}

// The rest of a chunk does not look like a real marker to the next sidecar, for which it would start a tool.
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
		{text("\r\n`💻 b`\r\n`🦄 x`\r\n"), "\r\n`🦄 x`\r\n"},
		{texts("a\n`💻 b`", "\r\n\r\n\r\n`🦄 x`\n"), "a\n\r\n`🦄 x`\n"},
		{texts("\n`🦄 x`\n`💻 b`\n<thi", "nk>y</think>c"), "\n`🦄 x`\nc"},
		{text("\n`💻 b`\n`💻 terminal` and `📖 read_file`\n"), "\n`💻 terminal` and `📖 read_file`\n"},
		{delta(`"content": "\u000a\u0060💻 b\u0060\u000a\u0060🦄 x\u0060\u000a"`), "\n`🦄 x`\n"},
		{delta(`"role": "assistant", "content": "\n` + "`💻 b`" + `\n` + "`🦄 x`" + `\n"`), "\n`🦄 x`\n"},
		{strings.Replace(text("\n`💻 b`\n`🦄 x`\n"), `"delta"`, `"text": "\n`+"`💻 b`"+`\n`+"`🦄 x`"+`\n", "delta"`, 1), "\n`🦄 x`\n"},
		{text("a") + markerChunk("💻", "ls") + text("`🦄 x`\n"), "a\n`🦄 x`\n"},
	} {
		for _, in := range []string{turn(c.in), inCRLF(turn(c.in))} {
			underAll(t, in, func(o Options, out string, v *view) {
				if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep {
					return
				}
				equal(t, v.content, c.content, c.in)
				if o.Imitations != ImitationsTrust && !strings.Contains(c.in, "ls`") && strings.Contains(out, "running") {
					t.Error("a tool starts")
				}
			})
		}
	}
}

// No tool starts after the finish chunk, whatever the form and the option (contract section 2), nor in text
// that a client does not see.
func TestWhatStartsNoTool(t *testing.T) {
	finished := role() + text("Sure") + finishChunk("stop", realUsage)
	for name, in := range map[string]string{
		"a marker in one chunk":           finished + markerChunk("💻", "ls") + doneFrame,
		"a marker merged with text":       finished + text("a\n`💻 ls`\nb") + doneFrame,
		"a marker at the end":             finished + text("a\n`💻 ls`") + doneFrame,
		"a marker in many chunks":         finished + texts("a\n`💻 ", "ls", "`\n") + doneFrame,
		"a marker that reasoning ends":    finished + text("a\n`💻 ls`") + reasoning("hm") + doneFrame,
		"a marker after [DONE]":           finished + doneFrame + markerChunk("💻", "ls"),
		"a content of which null counts":  role() + text("Sure") + delta(`"content": "\n`+"`💻 ls`"+`\n", "content": null`) + stop(),
		"a delta of which another counts": role() + text("Sure") + strings.Replace(delta(""), `"delta": {}`, `"delta": {"content": "\n`+"`💻 ls`"+`\n"}, "delta": {}`, 1) + stop(),
	} {
		underAll(t, in, func(o Options, _ string, v *view) {
			if len(v.tools) > 0 || v.finishes[0] != "stop" {
				t.Errorf("%s: %d tools, finish %q", name, len(v.tools), v.finishes)
			}
		})
	}
}

// A CR and its LF stay together if a frame leaves in parts of which the last is held or empty; a keepalive in
// between changes nothing else.
func TestPartsKeepTheirLF(t *testing.T) {
	trust := Options{Imitations: ImitationsTrust}
	for in, o := range map[string]Options{
		text("a\n\n<think></think>`"): {}, text("a\n\n<think>b</think>`💻 ls"): {}, text("a\n\n<think>b</think>\n\n<thi"): {},
		text("a\n\n<think>b</think>"): {}, text("<think>b</think>"): {}, text("\n`🦄 x`\n`💻"): {}, comment: {},
		text("a\n`💻 x`\n"): trust, text("a\n`📖 x`\n"): {Imitations: ImitationsTrust, Progress: ProgressOff}, text("a\n`💻 x`\n`📖"): trust,
		text("`💻") + delta(""): {MaxFrame: 350}, text("\n`💻") + text(strings.Repeat("x", 5000)): {},
	} {
		in, rest := inCRLF(role()+in), inCRLF(text("\nb")+stop())
		want := repairWith(in+rest, o)
		if s := strings.ReplaceAll(want, "\r\n", ""); strings.Contains(s, "\r") {
			t.Errorf("%q: a CR without its LF:\n%q", in, want)
		}
		s := New(&o, chatParams)
		out := string(s.Feed(nil, []byte(in[:len(in)-1]), epoch))
		breath, begun := strings.CutPrefix(string(s.Keepalive(nil)), "\n")
		if strings.HasSuffix(out, "\r") && !begun {
			t.Errorf("a keepalive stands between a CR and its LF")
		}
		if begun {
			out += "\n"
		}
		out += string(s.Finish(s.Feed(nil, []byte(in[len(in)-1:]+rest), epoch), CauseEOF))
		same(t, out, want, fmt.Sprintf("%q with %q between CR and LF: outputs", in, breath))
		same(t, repairWith(want, o), want, "twice and once")
	}
}
