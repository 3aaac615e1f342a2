// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2).
//
//	\n`💻 ls -la`\n
//
// Whole reads a marker that is all of a chunk: it starts a tool, whatever its emoji. A
// Line follows a line of a text, rune by rune, that may be an imitation of one, which
// has an emoji that is known; Line.ReadWhole does so for a text that has come whole. A
// Table knows which tool an emoji, with the label, stands for. All of them read the
// inside of JSON strings, where they stand.
//
// A Table does not change once made. The only state is that of a Line: its text up to
// MaxHeldLine, and none while its Phase is None.
package marker
