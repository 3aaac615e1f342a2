package jsonspan

import (
	"bytes"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NextRune decodes the rune at s[i:], where s is the inside of a JSON string,
// and returns it and the index after it. An escape is the rune that it stands for, and
// a pair of surrogates is one rune. A lone surrogate or an invalid byte is U+FFFD.
func NextRune(s []byte, i int) (rune, int) {
	c := s[i]
	if c != '\\' {
		if c < utf8.RuneSelf {
			return rune(c), i + 1
		}
		r, n := utf8.DecodeRune(s[i:])
		return r, i + n
	}
	if i+1 >= len(s) {
		return utf8.RuneError, i + 1
	}
	switch s[i+1] {
	case 'n':
		return '\n', i + 2
	case 't':
		return '\t', i + 2
	case 'r':
		return '\r', i + 2
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'u':
		r, ok := Hex4(s, i+2)
		if !ok {
			return utf8.RuneError, i + 2
		}
		if !utf16.IsSurrogate(r) {
			return r, i + 6
		}
		if i+7 < len(s) && s[i+6] == '\\' && s[i+7] == 'u' {
			if low, ok := Hex4(s, i+8); ok {
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					return r, i + 12
				}
			}
		}
		return utf8.RuneError, i + 6
	}
	return rune(s[i+1]), i + 2
}

// HasLoneSurrogate reports whether the inside of a JSON string has an escape for one
// half of a pair of surrogates without the other half.
func HasLoneSurrogate(s []byte) bool {
	for i := bytes.IndexByte(s, '\\'); i >= 0 && i < len(s); {
		r, next := NextRune(s, i)
		if r == utf8.RuneError && next == i+len(`\ud800`) && (s[i+2] == 'd' || s[i+2] == 'D') {
			return true
		}
		n := bytes.IndexByte(s[next:], '\\')
		if n < 0 {
			return false
		}
		i = next + n
	}
	return false
}

// Spells reports whether raw, the inside of a JSON string, stands for want, which is
// ASCII. JSON allows escapes in names, too.
func Spells(raw []byte, want string) bool {
	if len(raw) <= len(want) || bytes.IndexByte(raw, '\\') < 0 { // an escape is longer than its rune
		return string(raw) == want
	}
	return len(raw) <= len(`\u0000`)*len(want) && string(AppendText(make([]byte, 0, 64), raw)) == want
}

// AppendText appends the text of inner, the inside of a JSON string, to dst.
func AppendText(dst, inner []byte) []byte {
	for i := 0; i < len(inner); {
		r, next := NextRune(inner, i)
		dst = utf8.AppendRune(dst, r)
		i = next
	}
	return dst
}

// Hex4 returns the value of the four hexadecimal digits at s[i:].
func Hex4(s []byte, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	var r rune
	for _, c := range s[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// IsSpace reports whether r is white space. It does not look up ASCII, the usual case,
// in a table.
func IsSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || r >= '\t' && r <= '\r'
	}
	return unicode.IsSpace(r)
}

// HasText reports whether the inside of a JSON string has a non-space character.
func HasText(s []byte) bool {
	for i := 0; i < len(s); {
		r, next := NextRune(s, i)
		if !IsSpace(r) {
			return true
		}
		i = next
	}
	return false
}

// Truncate returns the JSON string raw with at most n bytes between its quotes. It
// cuts only between runes and escapes. A string that is cut is a copy.
func Truncate(raw []byte, n int) []byte {
	text := Inside(raw)
	end := len(Head(text, n))
	if end == len(text) {
		return raw
	}
	return append(raw[:1+end:1+end], '"')
}

// Head returns at most n bytes of the beginning of text, the inside of a JSON string. It
// cuts only between runes and escapes.
func Head(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	end := 0
	for {
		_, next := NextRune(text, end)
		if next > n {
			return text[:end]
		}
		end = next
	}
}

// NextNewline returns the index of the first newline from i on in text, the inside
// of a JSON string, or len(text) if there is none. In JSON a newline is always an escape.
func NextNewline(text []byte, i int) int {
	for {
		n := bytes.IndexByte(text[i:], '\\')
		if n < 0 {
			return len(text)
		}
		i += n
		r, next := NextRune(text, i)
		if r == '\n' {
			return i
		}
		i = next
	}
}
