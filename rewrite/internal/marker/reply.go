package marker

import (
	"strings"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// A reply is what a user types, often on a phone: the keyboard begins it with a capital and turns
// the hyphen into a dash, and the chat puts it in quotes or in code. ReadReply and Finder fold
// all of that in the same way (contract section 5), so that what answers a request is what leaves
// a history.

// Decision is what a reply says: approve or deny, a code, and nothing else.
type Decision struct {
	Word    []byte // approve or deny, as the text has it
	Approve bool
	Code    string // as it was shown, such as K7QF-2M9D
	// Exact says that something separates the word and the code, and that the code has a dash.
	// Otherwise the code may be a word, such as purchase, unless it is known.
	Exact bool
}

// maxReplyText is the length in bytes, as JSON, of the longest message that may be a reply.
const maxReplyText = 256

// ReadReply reads text, the inside of a JSON string, as a reply. ok is false if it is none.
func ReadReply(text []byte) (r Decision, ok bool) {
	if len(text) > maxReplyText {
		return r, false
	}
	var (
		letters  [len("approve") + codeLen]byte
		before   [len(letters)]gap // what separates a letter from the one before
		from, to [len(letters)]int // where it is
		n        int
		between  gap
	)
	for i := 0; i < len(text); {
		c, next := jsonspan.NextRune(text, i)
		letter, is := fold(c)
		switch {
		case is == foreign, letter != 0 && n == len(letters):
			return r, false
		case letter != 0:
			letters[n], before[n], from[n], to[n] = letter, between, i, next
			n, between = n+1, 0
		default:
			between |= is
		}
		i = next
	}
	k := n - codeLen
	if k < 0 || string(letters[:k]) != "APPROVE" && string(letters[:k]) != "DENY" {
		return r, false
	}
	middle := k + codeLen/2
	for i := 1; i < n; i++ {
		if i != k && i != middle && before[i] != 0 {
			return r, false
		}
	}
	if before[middle]&marks != 0 {
		return r, false
	}
	return Decision{
		Word: text[from[0]:to[k-1]], Approve: k == len("approve"), Code: codeOf(letters[k:n]),
		Exact: before[k] != 0 && before[middle]&dashes != 0,
	}, true
}

// codeLen is the number of letters and digits of a code.
const codeLen = len("K7QF") + len("2M9D")

// codeOf returns the code with the letters as it was shown.
func codeOf(letters []byte) string {
	return string(letters[:codeLen/2]) + "-" + string(letters[codeLen/2:])
}

// gap is the set of what stands between two letters.
type gap uint8

const (
	spaces  gap = 1 << iota // white space, also without width
	dashes                  // hyphens and all that keyboards make of one
	marks                   // punctuation that asks nothing, and what quotes or formats
	foreign                 // anything else
)

// fold returns the letter or digit, in capitals, for which r stands, or the gap that it makes. It
// returns zero values for what has no width, and for the backslash, with which editors escape.
func fold(r rune) (letter byte, is gap) {
	if r >= '！' && r <= '～' { // of full width
		r -= '！' - '!'
	}
	switch {
	case r >= 'a' && r <= 'z':
		return byte(r - 'a' + 'A'), 0
	case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return byte(r), 0
	case unicode.IsSpace(r), unicode.Is(unicode.Z, r), r == '\u2800':
		return 0, spaces
	case r == '\\', isUnseen(r):
		return 0, 0
	case unicode.Is(unicode.Pd, r), strings.ContainsRune("−⁃˗⁻₋ーｰ", r):
		return 0, dashes
	case strings.ContainsRune("?؟⁇⁈⁉‽¿⸮\u037e՞", r):
		return 0, foreign // it asks
	case unicode.IsPunct(r), unicode.Is(unicode.Sk, r):
		return 0, marks
	}
	return 0, foreign
}

// isUnseen reports whether r has no width.
func isUnseen(r rune) bool {
	return r > '~' && unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Finder finds secrets in texts: codes and tickets.
type Finder struct {
	// Known reports whether a secret is one to find. Codes are as they were shown.
	Known func(secret []byte) bool

	code   [codeLen + 1]byte   // the last letters, with the hyphen
	ticket [longestTicket]byte // the ticket that may end here
}

// Find returns where the next secret in text[i:], the inside of a JSON string, begins and ends, or
// -1 twice if there is none. It finds a code however ReadReply reads it, with anything around it.
func (f *Finder) Find(text []byte, i int) (from, to int) {
	var (
		begins  [codeLen]int // where the last letters begin
		apart   uint         // a bit for each letter, the last one lowest: it does not follow the one before
		foreign uint         // likewise: not even as the second half of a code
		n       int          // how many letters there are
		between gap
		size    int // of the ticket, more than longestTicket if it is too long
		start   int // where it begins
	)
	f.code[codeLen/2] = '-'
	for ; i < len(text); i = to {
		var c rune
		c, to = jsonspan.NextRune(text, i)
		switch {
		case !isOfTicket(c):
			if f.isTicket(size) {
				return start, i
			}
			size = 0
		case size == 0:
			start = i
			fallthrough
		case size <= longestTicket:
			if size < longestTicket {
				f.ticket[size] = byte(c)
			}
			size++
		}
		letter, is := fold(c)
		if letter == 0 {
			between |= is
			continue
		}
		copy(f.code[:], f.code[1:])
		f.code[codeLen/2-1], f.code[codeLen/2], f.code[codeLen] = f.code[codeLen/2], '-', letter
		begins[n%codeLen] = i
		n++
		apart, foreign = apart<<1, foreign<<1
		if between != 0 {
			apart |= 1
		}
		if between&^(spaces|dashes) != 0 {
			foreign |= 1
		}
		between = 0
		if n >= codeLen && apart&0b0111_0111 == 0 && foreign&0b0000_1000 == 0 && f.Known(f.code[:]) {
			return begins[n%codeLen], to
		}
	}
	if f.isTicket(size) {
		return start, len(text)
	}
	return -1, -1
}

// isTicket reports whether the ticket of the size is known.
func (f *Finder) isTicket(size int) bool {
	return size >= shortestTicket && size <= longestTicket && f.Known(f.ticket[:size])
}

// Bounds of the length of a ticket: 22 characters, of which its link may have been cut.
const (
	shortestTicket = 16
	longestTicket  = 64
)

// isOfTicket reports whether c may be a part of a ticket: of base64url.
func isOfTicket(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// Secrets calls add with each ticket and each code in the paragraphs in b, JSON or the inside of a
// string, and returns the number of paragraphs.
func Secrets(b []byte, add func(secret []byte)) (n int) {
	for i := 0; ; n++ {
		_, ways := nextApproval(b, i)
		if ways < 0 {
			return n
		}
		i = ways
		if link := skip(b, i, linkBegins); link >= 0 {
			for i = link; i < len(b) && strings.IndexByte(addressEnds, b[i]) < 0; {
				i++
			}
			if ticket := tail(b[link:i]); len(ticket) >= shortestTicket && len(ticket) <= longestTicket {
				add(ticket)
			}
			if i = skip(b, i, ") or "); i < 0 {
				i = ways
				continue
			}
		}
		if code := skip(b, i, replyBegins); code >= 0 && len(b)-code > codeLen && isCode(b[code:code+codeLen+1]) {
			add(b[code : code+codeLen+1])
		}
	}
}

// addressEnds has what ends the address of a link.
const addressEnds = ")`\" \n\t"

// tail returns the end of an address that may be a ticket.
func tail(address []byte) []byte {
	begin := len(address)
	for begin > 0 && isOfTicket(rune(address[begin-1])) {
		begin--
	}
	return address[begin:]
}

// isCode reports whether b is a code as it is shown.
func isCode(b []byte) bool {
	for i, c := range b {
		letter := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
		if i == codeLen/2 && c != '-' || i != codeLen/2 && !letter {
			return false
		}
	}
	return true
}
