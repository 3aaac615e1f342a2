// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2). A marker is a line with an emoji and a label
// between backticks:
//
//	\n`💻 ls -la`\n
//
// Whole reads the whole content of one chunk. Such a marker starts a tool, whatever its
// emoji. A Line follows a line of streamed text rune by rune, or reads one from a text that
// is complete. Such a line is an imitation, and counts only if the Table knows its emoji.
//
// All read the inside of a JSON string as it stands, escapes included, in linear time. The
// caller knows where lines begin and which of them are code.
package marker
