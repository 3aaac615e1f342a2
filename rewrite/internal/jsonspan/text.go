package jsonspan

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NextRune decodes the rune at s[i:], where s is the inside of a JSON string,
// and returns it and the index after it. An escape is the rune that it stands for, and
// a pair of surrogates is one rune. A lone surrogate or an invalid byte is U+FFFD.
func NextRune(s []byte, i int) (rune, int) {
	if s[i] != '\\' {
		r, n := utf8.DecodeRune(s[i:])
		return r, i + n
	}
	r, next := escapeAt(s, i)
	if !utf16.IsSurrogate(r) {
		return r, next
	}
	if low, end := escapeAt(s, next); utf16.DecodeRune(r, low) != utf8.RuneError {
		return utf16.DecodeRune(r, low), end
	}
	return utf8.RuneError, next
}

// escapeAt decodes the escape at s[i:], if there is one, and returns the index after it. It does
// not combine surrogates. An escape that JSON does not have is two bytes long.
func escapeAt(s []byte, i int) (r rune, next int) {
	if i+1 >= len(s) || s[i] != '\\' {
		return utf8.RuneError, len(s)
	}
	if k := strings.IndexByte(escapes, s[i+1]); k >= 0 {
		return rune(escaped[k]), i + 2
	}
	if s[i+1] != 'u' {
		return rune(s[i+1]), i + 2
	}
	if r, ok := Hex4(s, i+2); ok {
		return r, i + 6
	}
	return utf8.RuneError, i + 2
}

// JSON's escapes of one letter, and what they stand for.
const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

// Hex4 returns the value of the four hexadecimal digits at s[i:].
func Hex4(s []byte, i int) (rune, bool) {
	var b [2]byte
	if i+4 > len(s) {
		return 0, false
	}
	_, err := hex.Decode(b[:], s[i:i+4])
	return rune(binary.BigEndian.Uint16(b[:])), err == nil
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

// HasLoneSurrogate reports whether the inside of a JSON string has an escape for one
// half of a pair of surrogates without the other half.
func HasLoneSurrogate(s []byte) bool {
	for i := 0; i < len(s); {
		r, next := NextRune(s, i)
		if r == utf8.RuneError && s[i] == '\\' && next == i+len(`\ud800`) && s[i+2]|0x20 == 'd' {
			return true
		}
		i = next
	}
	return false
}

// Spells reports whether raw, the inside of a JSON string, stands for want, which is
// ASCII. JSON also allows escapes in names.
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

// HasText reports whether the inside of a JSON string has a non-space character.
func HasText(s []byte) bool {
	for i := 0; i < len(s); {
		r, next := NextRune(s, i)
		if !unicode.IsSpace(r) {
			return true
		}
		i = next
	}
	return false
}

// Head returns at most n bytes of the beginning of text, the inside of a JSON string. It
// cuts only between runes and escapes.
func Head(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for end := 0; ; {
		_, next := NextRune(text, end)
		if next > n {
			return text[:end]
		}
		end = next
	}
}

// Quote returns text as a JSON string, with no more escapes than it needs.
func Quote(text string) []byte {
	if !strings.ContainsFunc(text, needsEscape) { // as in most labels: the encoder takes a third of a card's time
		b := make([]byte, 0, len(text)+len(`""`))
		return append(append(append(b, '"'), text...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// needsEscape reports whether the encoder may write r in another way.
func needsEscape(r rune) bool {
	return r < ' ' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}

// Plain returns the JSON string raw with no more escapes than it needs, so that it equals
// every other spelling of its text. It is never longer than raw, and raw itself if that has
// no escapes. Lone surrogates and invalid bytes stay.
func Plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	plain := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		r, next := NextRune(raw, i)
		k := strings.IndexRune(escaped, r)
		switch escape := raw[i:next]; {
		case escape[0] != '\\' || r == utf8.RuneError:
			plain = append(plain, escape...)
		case k >= 0 && r != '/':
			plain = append(plain, '\\', escapes[k])
		case r < ' ':
			plain = append(plain, bytes.ToLower(escape)...)
		default:
			plain = utf8.AppendRune(plain, r)
		}
		i = next
	}
	return plain
}

// OneLine returns the JSON b with spaces for line feeds, so that it fits in one data
// line. Line feeds in JSON are white space between tokens: a string has none.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
}

// Unquote returns the text of the JSON string raw, or "" if raw is not a string.
func Unquote[T string | []byte](raw T) string {
	text := string(Inside(raw))
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return string(AppendText(nil, []byte(text)))
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
