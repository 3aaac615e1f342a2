package prose

import "unicode"

// Fence follows the lines of a Markdown text and knows whether the next line is
// inside a fenced code block (CommonMark 4.5). Unlike CommonMark it allows any
// indentation before a fence, because models fence code inside lists. The zero value is
// at the start of a message.
type Fence struct {
	size int32 // the length of the open fence
	char byte  // the character of the open fence, 0 if none is open

	// The current line.
	begun bool  // there was a rune of it
	text  bool  // it is no fence
	run   byte  // the backtick or tilde that it begins with, after white space
	n     int32 // the length of that run
	after bool  // a rune follows the run
	info  bool  // a rune after the run is not white space
	ticks bool  // a rune after the run is a backtick
}

// Open reports whether a fenced code block is open.
func (f *Fence) Open() bool { return f.char != 0 }

// LineStart reports whether the next rune is the first of its line.
func (f *Fence) LineStart() bool { return !f.begun }

// Blank reports whether the line is nothing but white space so far.
func (f *Fence) Blank() bool { return !f.text && f.n == 0 }

// MidLine reports whether the line is no fence and has begun, so that Step does nothing
// before the next newline.
func (f *Fence) MidLine() bool { return f.text }

// Step follows the next rune.
func (f *Fence) Step(r rune) {
	switch {
	case r == '\n':
		f.endLine()
		return
	case f.text, f.n == 0 && unicode.IsSpace(r):
	case (r == '`' || r == '~') && !f.after && (f.n == 0 || r == rune(f.run)):
		f.run, f.n = byte(r), min(f.n, 1<<30)+1
	default:
		f.after, f.info, f.ticks = true, f.info || !unicode.IsSpace(r), f.ticks || r == '`'
		f.text = f.n < 3 || f.ticks && f.run == '`' || f.info && f.Open() // a fence that closes has no info string
	}
	f.begun = true
}

// endLine opens or closes a block if the line was a fence.
func (f *Fence) endLine() {
	switch {
	case f.text || f.n < 3:
	case !f.Open():
		f.char, f.size = f.run, f.n
	case f.run == f.char && f.n >= f.size:
		f.char = 0
	}
	*f = Fence{size: f.size, char: f.char}
}
