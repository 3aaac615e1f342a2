// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2). A marker is a line with an emoji and a label
// between backticks:
//
//	\n`💻 ls -la`\n
//
// There are three ways to read one, by how much of it is there:
//
//   - Whole reads the whole content of one chunk. Such a marker starts a tool, whatever
//     its emoji.
//   - Line follows a line of streamed text rune by rune. Such a line is an imitation, and
//     counts only if the Table knows its emoji.
//   - Line.ReadWhole reads the same from a text that is complete, as histories are.
//
// All of them read the inside of a JSON string as it stands, escapes included. The
// caller knows where lines begin and which of them are code.
//
// A Table maps an emoji, and for some emoji the label, to the name of a tool. NewTable
// adds to the table of Hermes; nothing changes a Table afterwards, so all streams share
// one. A Line is the only state: at most MaxHeldLine bytes of text, in buffers that it
// keeps for the next line. Every function takes time linear in the text that it reads;
// Whole decides from the first two characters for nearly every chunk.
package marker
