package prose

import (
	"math"
	"unicode"
)

// Fence follows the lines of a Markdown text and knows whether the next line is
// inside a fenced code block (CommonMark 4.5). Unlike CommonMark it allows any
// indentation before a fence, because models fence code inside lists. The zero value is
// at the start of a message.
type Fence struct {
	size  int32 // the length of the open fence
	char  byte  // the character of the open fence, 0 if none is open
	run   byte  // the character of the run that the current line begins with
	n     int32 // the length of that run
	phase fencePhase
	begun bool // a rune of the current line has come
}

type fencePhase uint8

const (
	fenceIndent fencePhase = iota // at the start of a line, or after white space there
	fenceRun                      // in a run of backticks or tildes
	fenceInfo                     // after a run that opens a block if the line stays a fence
	fenceTrail                    // after a run that closes the block if only space follows
	fenceText                     // in a line that is not a fence
)

// Open reports whether a fenced code block is open.
func (f *Fence) Open() bool { return f.char != 0 }

// LineStart reports whether the next rune is the first of its line.
func (f *Fence) LineStart() bool { return !f.begun }

// MidLine reports whether the line is no fence and has begun, so that Step does nothing
// before the next newline.
func (f *Fence) MidLine() bool { return f.phase == fenceText && f.begun }

// Step follows the next rune.
func (f *Fence) Step(r rune) {
	f.begun = r != '\n'
	if r == '\n' {
		f.endLine()
		return
	}
	switch f.phase {
	case fenceIndent:
		if r == '`' || r == '~' {
			f.phase, f.run, f.n = fenceRun, byte(r), 1
		} else if !unicode.IsSpace(r) {
			f.phase = fenceText
		}
	case fenceRun:
		f.inRun(r)
	case fenceInfo:
		if r == '`' && f.run == '`' {
			f.phase = fenceText // the info string of a backtick fence has no backtick
		}
	case fenceTrail:
		if !unicode.IsSpace(r) {
			f.phase = fenceText
		}
	}
}

// inRun follows a rune that a run of backticks or tildes precedes.
func (f *Fence) inRun(r rune) {
	switch {
	case r == rune(f.run):
		f.n = min(f.n, math.MaxInt32-1) + 1
	case f.n < 3:
		f.phase = fenceText
	case !f.Open():
		f.phase = fenceInfo
	case f.closes() && unicode.IsSpace(r):
		f.phase = fenceTrail
	default:
		f.phase = fenceText
	}
}

// closes reports whether the run at the start of the line closes the open block.
func (f *Fence) closes() bool { return f.run == f.char && f.n >= f.size }

// endLine opens or closes a block if the line was a fence.
func (f *Fence) endLine() {
	opens := f.phase == fenceInfo || f.phase == fenceRun && f.n >= 3
	switch {
	case !f.Open() && opens:
		f.char, f.size = f.run, f.n
	case f.Open() && (f.phase == fenceTrail || f.phase == fenceRun && f.closes()):
		f.char = 0
	}
	f.phase = fenceIndent
}
