package contract

import (
	"math/bits"
	"math/rand/v2"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Memory remembers which tools ran during the answers to one client (contract section 8). Many
// streams and requests of the client use it at once.
type Memory interface {
	// Empty reports whether nothing is remembered.
	Empty() bool
	// Recall returns the tools of the answer in the turn t, nil if they are not known for certain.
	Recall(t Turn) []ToolRun
	// Remember records the tools of the answer in the turn t, which may be none.
	Remember(t Turn, tools []ToolRun)
}

// Turn is a question of the user's and its answer, as histories show them.
type Turn struct {
	Before   Text // the answer before, zero if the history shows none
	Question Text // the user's message right before the answer
	Answer   Text
}

// ToolRun is what is known of a tool that ran. Args and Result are as a record shows them: each is
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
// copied. It is a polynomial over the prime field of 2⁶¹-1, at a random point, so that nobody can
// choose texts with equal values.
type TextSum struct {
	sum, part uint64
	n         uint64 // the number of bytes that have come; the last of them, less than seven, are in part
}

const (
	prime     = 1<<61 - 1
	partBytes = 7
)

var point = rand.Uint64N(prime-1<<32) + 1<<32

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
	s.part = s.part<<8 | uint64(c)
	if s.n++; s.n%partBytes == 0 {
		s.sum, s.part = step(s.sum, s.part), 0
	}
}

// step returns (sum × point + part) modulo prime.
func step(sum, part uint64) uint64 {
	hi, lo := bits.Mul64(sum, point)
	sum = lo&prime + (lo>>61 | hi<<3) + part
	for sum >= prime {
		sum -= prime
	}
	return sum
}

// Text returns the Text of the parts.
func (s *TextSum) Text() Text { return Text(step(step(s.sum, s.part), s.n) + 1) }
