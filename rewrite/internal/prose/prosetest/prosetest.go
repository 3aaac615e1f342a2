// Package prosetest has texts for tests of how prose is read, and a model of its fences.
package prosetest

import (
	"strings"
	"unicode"
)

// TaggedTexts are texts with their content and their reasoning
// (contract section 4).
var TaggedTexts = []struct{ Name, In, Content, Reasoning string }{
	{"no tag", "Hello <b>world</b>", "Hello <b>world</b>", ""},
	{"at the start", "<think>plan</think>\n\nAnswer", "Answer", "plan"},
	{"thinking", "<thinking>plan</thinking>Answer", "Answer", "plan"},
	{"reasoning", "<reasoning>plan</reasoning> Answer", "Answer", "plan"},
	{"thought", "<thought>plan</thought>\t\n Answer", "Answer", "plan"},
	{"scratchpad", "<REASONING_SCRATCHPAD>plan</REASONING_SCRATCHPAD>\nAnswer", "Answer", "plan"},
	{"any case", "<Think>plan</THINK>\nAnswer", "Answer", "plan"},
	{"after white space", "\n  <think>plan</think>Answer", "\n  Answer", "plan"},
	{"after a paragraph break", "Hi\n\n<think>plan</think>\n\nAnswer", "Hi\n\nAnswer", "plan"},
	{"after a blank line with spaces", "Hi\n \n<think>plan</think>Answer", "Hi\n \nAnswer", "plan"},
	{"after a line break", "Hi\n<think>plan</think>Answer", "Hi\n<think>plan</think>Answer", ""},
	{"within a line", "Use <think> tags.", "Use <think> tags.", ""},
	{"after a space in a paragraph", "Hi\n\nUse <think>", "Hi\n\nUse <think>", ""},
	{"twice", "<think>a</think>\n<think>b</think>Answer", "Answer", "a\n\nb"},
	{"twice without a break", "<think>a</think><thought>b</thought>Answer", "Answer", "a\n\nb"},
	{"again later", "<think>a</think>One\n\n<think>b</think>Two", "One\n\nTwo", "a\n\nb"},
	{"white space, then a thought", "<think>\n</think><think>a</think><think></think>Answer", "Answer", "\na"},
	{"a thought, then white space", "<think>a</think><think>\n</think>Answer", "Answer", "a\n\n\n"},
	{"a thought that ends with newlines", "<think>a\n\n</think><think>b</think>Answer", "Answer", "a\n\n\n\nb"},
	{"after what was no closing tag", "<think>a</think><think></thi b</think>Answer", "Answer", "a\n\n</thi b"},
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
	{"after a fence", "```\ncode\n```\n\n<think>x</think>Answer", "```\ncode\n```\n\nAnswer", "x"},
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
	{"half a tag and white space after", "<think>x</think><th \n\nAnswer", "<th \n\nAnswer", "x"},
	{"white space of all kinds after", "<think>x</think> \t\r\n\u00a0\u2003Answer", "Answer", "x"},
	{"nothing but white space after", "<think>x</think>\n\n", "", "x"},
}

// FenceAfter returns the fence that is open after a line, "" for none.
func FenceAfter(fence, line string) string {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	if line == "" || line[0] != '`' && line[0] != '~' {
		return fence
	}
	info := strings.TrimLeft(line, line[:1])
	run := line[:len(line)-len(info)]
	switch {
	case len(run) < 3:
	case fence == "":
		if run[0] == '~' || !strings.Contains(info, "`") {
			return run
		}
	case run[0] == fence[0] && len(run) >= len(fence) && strings.TrimSpace(info) == "":
		return ""
	}
	return fence
}
