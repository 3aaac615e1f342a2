// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2). A marker is a line with an emoji and a label
// between backticks:
//
//	\n`💻 ls -la`\n
//
// Whole reads the whole content of one chunk. Such a marker starts a tool, whatever its
// emoji. Table.Line reads a line of text. Such a line is an imitation, and counts only if the
// Table knows its emoji, for which Table.Opening looks.
//
// All read the inside of a JSON string as it stands, escapes included, in linear time. The
// caller knows where lines begin and which of them are code.
package marker
