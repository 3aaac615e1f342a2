package contract

import (
	"encoding/binary"
	"hash/maphash"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Memory remembers which tools ran during the answers to one client (contract section 8). Many
// streams and requests of the client use it at once.
type Memory interface {
	// Empty reports whether no tools are remembered.
	Empty() bool
	// Recall returns the tools of the answer in the turn t, nil if they are not known for certain. They
	// must not change.
	Recall(t Turn) []ToolRun
	// Remember records the tools of the answer in the turn t, which may be none.
	Remember(t Turn, tools []ToolRun)
}

// Turn is a question of the user's and its answer, as histories show them.
type Turn struct {
	Past     Text // the history up to the question, byte for byte, without what comes before the first message of the user's or the assistant's; zero if that is not known
	Before   Text // the answer before, zero if the history shows none
	Question Text // the user's message right before the answer
	Answer   Text
}

// ToolRun has the details of a tool that ran. Args and Result are as a record shows them: each is
// one JSON value of printable characters, in one line and bounded.
type ToolRun struct {
	Name   string
	Args   string // what it was given, or a string with its label; empty if that is not known
	Ended  string // Completed, a status for which EndedOtherwise is true, or WaitsForApproval; empty if that is not known
	Result string // a string with what it returned; empty if that is not known
	Times  int    // how many tools this stands for, without Args; zero means one
}

// Text stands for a text, white space aside: texts that differ in nothing else have the same Text.
// Clients trim texts. The zero value stands for none; an empty text has another value. It is valid
// within the process.
type Text uint64

// TextSum makes a Text of parts of a text. The zero value is that of an empty text, and may be
// copied: a maphash.Hash is five times as large, and each stream has two.
type TextSum struct {
	part [31]byte // the last bytes; what was before them is a sum at the beginning
	n    uint8
}

// seed is random, so that nobody can choose texts with equal values.
var seed = maphash.MakeSeed()

// textOf returns the Text of a hash, which is not zero.
func textOf(sum uint64) Text { return Text(sum | 1) }

// PastSum makes the Text of bytes that come in parts. The zero value is that of none.
type PastSum struct{ hash maphash.Hash }

// Add adds a part.
func (s *PastSum) Add(b []byte) {
	if s.hash.Seed() != seed {
		s.hash.SetSeed(seed)
	}
	_, _ = s.hash.Write(b)
}

// Text returns the Text of the bytes so far, of which there are some.
func (s *PastSum) Text() Text { return textOf(s.hash.Sum64()) }

// Add adds a part, the inside of a JSON string.
func (s *TextSum) Add(inner []byte) {
	for i := 0; i < len(inner); {
		c := inner[i]
		if c < utf8.RuneSelf && c != '\\' {
			if i++; c > ' ' {
				s.add(c)
			}
			continue
		}
		var r rune
		if r, i = jsonspan.NextRune(inner, i); r <= ' ' || unicode.IsSpace(r) || r == '\ufeff' {
			continue
		}
		var b [utf8.UTFMax]byte
		for _, c := range b[:utf8.EncodeRune(b[:], r)] {
			s.add(c)
		}
	}
}

func (s *TextSum) add(c byte) {
	if int(s.n) == len(s.part) {
		s.fold()
	}
	s.part[s.n] = c
	s.n++
}

// fold replaces all bytes by their sum.
func (s *TextSum) fold() {
	binary.NativeEndian.PutUint64(s.part[:], maphash.Bytes(seed, s.part[:]))
	s.n = 8
}

// Text returns the Text of the parts.
func (s *TextSum) Text() Text { return textOf(maphash.Bytes(seed, s.part[:s.n])) }
