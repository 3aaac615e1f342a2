package redact

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// enough is the number of characters that are a secret, whatever they are, where one is
// expected.
const enough = 40

// value is characters that may be a secret.
type value struct {
	at            jsonspan.Span
	n             int  // the number of characters, with the punctuation that follows
	digit, letter bool // it has one
	mixed         bool // a capital follows a small letter
	other         bool // one is neither a letter, nor a digit, nor a hyphen
	stars         bool // all are stars
	isWord        bool // it is one of noSecrets
	longest       int  // the length of the longest stretch of letters and digits
	likeKey       bool // one of those stretches looks like a key
}

// valueAt reads the characters of the set from i on. Punctuation that ends a sentence is
// not part of the value.
func valueAt(b []byte, i int, set string) value {
	b = b[i:skip(b, i, set)]
	v := value{n: len(b), stars: len(bytes.Trim(b, "*")) == 0}
	v.at = jsonspan.Span{From: i, To: i + len(bytes.TrimRight(b, ".:!?"))}
	separates := func(r rune) bool { return !is(byte(r), alphanumeric) }
	for part := range bytes.FieldsFuncSeq(b, separates) {
		digit, letter, mixed := bytes.ContainsAny(part, decimal), bytes.ContainsAny(part, letters), false
		for i := range part[1:] {
			mixed = mixed || beginsWord(part[i+1], part[i])
		}
		v.digit, v.letter, v.mixed = v.digit || digit, v.letter || letter, v.mixed || mixed
		v.longest = max(v.longest, len(part))
		v.likeKey = v.likeKey || len(part) >= 8 && (mixed || digit && letter)
	}
	v.other = bytes.ContainsFunc(b, func(r rune) bool { return r != '-' && separates(r) })
	if v.n <= 16 && !v.digit {
		word := strings.ToLower(string(bytes.TrimRightFunc(b, separates)))
		v.isWord = slices.Contains(noSecrets, word)
	}
	return v
}

// isSecretOf reports whether the value is a secret after a name. sure says that the name
// is certain to be that of a secret.
func (v *value) isSecretOf(sure bool) bool {
	switch {
	case !sure:
		return v.isSecret(v.digit && v.letter && v.n >= 6 || v.mixed && v.n >= 8 || v.longest >= 16)
	case v.digit && !v.letter && !v.other:
		return v.isSecret(v.n >= 4)
	}
	return v.isSecret(v.digit || v.mixed || v.n >= 6)
}

// isSecretAfter reports whether the value is a secret after the scheme.
func (v *value) isSecretAfter(scheme string) bool {
	bearer := scheme == "Bearer" || v.other && !strings.EqualFold(scheme, "basic")
	return v.isSecret(bearer || v.digit || v.mixed && v.n >= 4 || v.longest >= 16)
}

// isSecret reports whether the value is a secret. looksLikeOne decides about those that
// are short.
func (v *value) isSecret(looksLikeOne bool) bool {
	possible := v.at.Ok() && v.n >= 3 && !v.isWord && !(v.stars && v.n < enough)
	return possible && (looksLikeOne || v.n >= enough)
}
