package rewrite

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// apiKey and bearer match what must not leave in upstream's messages (contract
// section 3).
var (
	apiKey = regexp.MustCompile(`\bsk-[A-Za-z0-9_*.\-]{3,}`)
	bearer = regexp.MustCompile(`(?i)\b(bearer)([\s:="']+)([A-Za-z0-9_*.~+/=\-]{3,})`)
)

const redacted = "[redacted]"

// redactText returns text without secrets.
func redactText(text string) string {
	if strings.Contains(text, "sk-") {
		text = apiKey.ReplaceAllLiteralString(text, redacted)
	}
	if !hasBearer(text) {
		return text
	}
	return bearer.ReplaceAllStringFunc(text, func(s string) string {
		m := bearer.FindStringSubmatch(s)
		scheme, between, token := m[1], m[2], m[3]
		if token == redacted[1:len(redacted)-1] || scheme != "Bearer" && !strings.ContainsAny(token, "0123456789_.+/=*") {
			return s // a word, as in "missing bearer authentication"
		}
		return scheme + between + redacted
	})
}

// redactIn adds the edits that take secrets out of the strings in the JSON
// value at v. They are looked for in the text, not in its escapes.
func (s *Stream) redactIn(v span) {
	each := func(at span, raw []byte) {
		s.note(sectionEnd, "a secret in the message: redacted")
		s.edit(v.from+at.from, v.from+at.to, raw)
	}
	if v.ok() && s.mayTellSecret() {
		eachSecret(v.of(s.f.data), each)
	}
}

// redact returns b, a part of what the chunk s.c says of an error, without secrets.
func (s *Stream) redact(b []byte) []byte {
	if !s.mayTellSecret() {
		return b
	}
	return redact(b)
}

// mayTellSecret tells whether there may be a secret in what the chunk s.c says of an
// error. It looks once.
func (s *Stream) mayTellSecret() bool {
	f := &s.c.fault
	if !f.looked {
		f.looked = true
		f.secret = mayHoldSecret(s.c.err.of(s.f.data)) || mayHoldSecret(s.c.hermes.of(s.f.data))
	}
	return f.secret
}

// redactError takes secrets out of what the chunk s.c says of an error.
func (s *Stream) redactError() {
	s.redactIn(s.c.err)
	s.redactIn(s.c.hermes)
}

// redact returns the JSON value b without secrets.
func redact(b []byte) []byte {
	var out []byte
	at := 0
	eachSecret(b, func(s span, raw []byte) {
		out = append(append(out, b[at:s.from]...), raw...)
		at = s.to
	})
	if at == 0 {
		return b
	}
	return append(out, b[at:]...)
}

// eachSecret calls each with the strings of the JSON value b that have secrets
// in them, and what to put in their place.
func eachSecret(b []byte, each func(at span, with []byte)) {
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		end := skipString(b, i)
		if end < 0 {
			return
		}
		if raw := b[i:end]; mayHoldSecret(raw) {
			text := unquote(raw)
			if clean := redactText(text); clean != text {
				each(span{i, end}, quoteText(clean))
			}
		}
		i = end - 1
	}
}

// mayHoldSecret tells whether there may be a secret in the JSON value b. It is
// cheap, and may be wrong in saying so.
func mayHoldSecret(b []byte) bool {
	return hasKey(b) || hasEscapedWord(b) || hasBearer(b)
}

// hasKey tells whether what keys begin with is in b. It looks for the hyphen, which
// is rarer than what stands before it.
func hasKey(b []byte) bool {
	for i := indexFrom(b, 0, '-'); i < len(b); i = indexFrom(b, i+1, '-') {
		if i >= 2 && b[i-1] == 'k' && b[i-2] == 's' {
			return true
		}
	}
	return false
}

// hasBearer tells whether the word is in b, in letters of either case. From what is
// where the word would end it knows how far the next can be.
func hasBearer[T string | []byte](b T) bool {
	const word = "bearer"
next:
	for i := len(word) - 1; i < len(b); {
		switch b[i] | 0x20 {
		case 'r':
			for j := range len(word) - 1 {
				if b[i-len(word)+1+j]|0x20 != word[j] {
					i += 2
					continue next
				}
			}
			return true
		case 'e':
			i++
		case 'a':
			i += 3
		case 'b':
			i += 5
		default:
			i += len(word)
		}
	}
	return false
}

// hasEscapedWord tells whether there is a letter or a hyphen in the JSON value b
// that is an escape.
func hasEscapedWord(b []byte) bool {
	for i := indexFrom(b, 0, '\\'); i+5 < len(b); i = indexFrom(b, i+1, '\\') {
		if string(b[i:i+4]) == `\u00` && (b[i+4] >= '4' && b[i+4] <= '7' || b[i+4] == '2' && b[i+5]|0x20 == 'd') {
			return true
		}
	}
	return false
}

// quoteText returns text as a JSON string, with no more escapes than it needs.
func quoteText(text string) []byte { return appendQuoted(nil, text) }

// appendQuoted appends text as a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	if isPlainASCII(text) {
		dst = append(append(slices.Grow(dst, len(text)+2), '"'), text...)
		return append(dst, '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// isPlainASCII tells whether text needs no escape, and no look at its encoding.
func isPlainASCII(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
