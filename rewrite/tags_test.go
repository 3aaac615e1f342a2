package rewrite

import (
	"strings"
	"testing"
)

// separated runs tags over a text and returns its content and its reasoning.
func separated(in string) (content, reasoning string) {
	var tg tags
	var fc fence
	var out, thought, held strings.Builder
	text := func(s string) {
		for _, r := range s {
			tg.sent(r)
			fc.step(r)
		}
		out.WriteString(s)
	}
	again := false // a stretch behind another has begun, and said nothing yet
	think := func(s string) {
		if again && s != "" {
			thought.WriteString("\n\n")
			again = false
		}
		thought.WriteString(s)
	}
	rs := []rune(in)
	for i := 0; i < len(rs); i++ {
		inside := tg.inside
		switch tg.step(rs[i], fc.open()) {
		case stepText:
			text(string(rs[i]))
		case stepReasoning:
			think(string(rs[i]))
		case stepSpace:
		case stepMaybe:
			held.WriteRune(rs[i])
		case stepTag:
			held.Reset()
			again = tg.inside && strings.TrimSpace(thought.String()) != ""
		case stepClosed:
			held.Reset()
			i--
		case stepNot:
			if inside {
				think(held.String())
			} else {
				text(held.String())
			}
			held.Reset()
			i--
		}
	}
	inside := tg.inside
	switch {
	case tg.settle():
	case inside:
		think(held.String())
	default:
		text(held.String())
	}
	return out.String(), thought.String()
}

// taggedTexts are texts with what their content and their reasoning are
// (contract section 4).
var taggedTexts = []struct{ name, in, content, reasoning string }{
	{"no tag", "Hello <b>world</b>", "Hello <b>world</b>", ""},
	{"at the start", "<think>plan</think>\n\nAnswer", "Answer", "plan"},
	{"thinking", "<thinking>plan</thinking>Answer", "Answer", "plan"},
	{"reasoning", "<reasoning>plan</reasoning> Answer", "Answer", "plan"},
	{"thought", "<thought>plan</thought>\t\n Answer", "Answer", "plan"},
	{"scratchpad", "<REASONING_SCRATCHPAD>plan</REASONING_SCRATCHPAD>\nAnswer", "Answer", "plan"},
	{"any case", "<Think>plan</THINK>\nAnswer", "Answer", "plan"},
	{"behind white space", "\n  <think>plan</think>Answer", "\n  Answer", "plan"},
	{"behind a paragraph break", "Hi\n\n<think>plan</think>\n\nAnswer", "Hi\n\nAnswer", "plan"},
	{"behind a blank line with spaces", "Hi\n \n<think>plan</think>Answer", "Hi\n \nAnswer", "plan"},
	{"behind a line break", "Hi\n<think>plan</think>Answer", "Hi\n<think>plan</think>Answer", ""},
	{"within a line", "Use <think> tags.", "Use <think> tags.", ""},
	{"behind a space in a paragraph", "Hi\n\nUse <think>", "Hi\n\nUse <think>", ""},
	{"twice", "<think>a</think>\n<think>b</think>Answer", "Answer", "a\n\nb"},
	{"twice without a break", "<think>a</think><thought>b</thought>Answer", "Answer", "a\n\nb"},
	{"again later", "<think>a</think>One\n\n<think>b</think>Two", "One\n\nTwo", "a\n\nb"},
	{"white space, then a thought", "<think>\n</think><think>a</think><think></think>Answer", "Answer", "\na"},
	{"a thought, then white space", "<think>a</think><think>\n</think>Answer", "Answer", "a\n\n\n"},
	{"a thought that ends with newlines", "<think>a\n\n</think><think>b</think>Answer", "Answer", "a\n\n\n\nb"},
	{"behind what was no closing tag", "<think>a</think><think></thi b</think>Answer", "Answer", "a\n\n</thi b"},
	{"a name of two words", "<mm:think>a</think></mm:think>Answer", "Answer", "a</think>"},
	{"empty", "<think>\n\n</think>\n\nAnswer", "Answer", "\n\n"},
	{"empty without anything", "<think></think>Answer", "Answer", ""},
	{"unclosed", "<think>plan", "", "plan"},
	{"unclosed in a closing tag", "<think>plan</thi", "", "plan</thi"},
	{"only an opening tag", "<think>", "", ""},
	{"half an opening tag", "<thin", "<thin", ""},
	{"another tag", "<thinker>plan</thinker>", "<thinker>plan</thinker>", ""},
	{"a tag with a space", "<think >plan</think >", "<think >plan</think >", ""},
	{"a closing tag alone", "plan</think>Answer", "plan</think>Answer", ""},
	{"a closing tag at the start", "</think>Answer", "</think>Answer", ""},
	{"two brackets", "<<think>plan</think>Answer", "<<think>plan</think>Answer", ""},
	{"a bracket before the closing tag", "<think>a < b <</think>Answer", "Answer", "a < b <"},
	{"nested", "<think>a<think>b</think>Answer", "Answer", "a<think>b"},
	{"another name within", "<think>a</thinking>b</think>Answer", "Answer", "a</thinking>b"},
	{"the tag in inline code", "Write `<think>` first", "Write `<think>` first", ""},
	{"inline code in a paragraph of its own", "Hi\n\n`<think>`", "Hi\n\n`<think>`", ""},
	{"the tag in a fence", "```xml\n\n<think>x</think>\n```\n", "```xml\n\n<think>x</think>\n```\n", ""},
	{"the tag at the start of a fence", "```\n<think>\n```", "```\n<think>\n```", ""},
	{"behind a fence", "```\ncode\n```\n\n<think>x</think>Answer", "```\ncode\n```\n\nAnswer", "x"},
	{"indented code", "Hi\n\n    <think>x</think>", "Hi\n\n    <think>x</think>", ""},
	{"indented code with a tab", "Hi\n\n\t<think>x</think>", "Hi\n\n\t<think>x</think>", ""},
	{"indented by three", "Hi\n\n   <think>x</think>Answer", "Hi\n\n   Answer", "x"},
	{"inline code in the reasoning", "<think>I close with `</think>` then</think>Answer", "Answer", "I close with `</think>` then"},
	{"a backtick before the closing tag", "<think>use `ls`</think>Answer", "Answer", "use `ls`"},
	{"a backtick before the last closing tag", "<think>use `ls`</think>", "", "use `ls`"},
	{"a fence in the reasoning", "<think>so:\n```\n</think>\n```\nok</think>Answer", "Answer", "so:\n```\n</think>\n```\nok"},
	{"an unclosed fence in the reasoning", "<think>so:\n```\ncode</think>\n\nAnswer", "Answer", "so:\n```\ncode"},
	{"an unclosed fence at the end", "<think>so:\n```\ncode</think>", "", "so:\n```\ncode"},
	{"a space in the reasoning's fence", "<think>```\n</think> \n\n```</think>\n\nA", "A", "```\n</think> \n\n```"},
	{"a backtick in the reasoning's fence", "<think>```\na`</think>\n```\nb</think>\nA", "A", "```\na`</think>\n```\nb"},
	{"white space of all kinds behind", "<think>x</think> \t\r\n\u00a0\u2003Answer", "Answer", "x"},
	{"nothing but white space behind", "<think>x</think>\n\n", "", "x"},
}

func TestTags(t *testing.T) {
	for _, c := range taggedTexts {
		content, reasoning := separated(c.in)
		if content != c.content || reasoning != c.reasoning {
			t.Errorf("%s: content %q, reasoning %q, want %q and %q", c.name, content, reasoning, c.content, c.reasoning)
		}
		if again, more := separated(content); again != content || more != "" {
			t.Errorf("%s: a second time: %q, %q", c.name, again, more)
		}
	}
}
