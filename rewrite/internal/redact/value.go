package redact

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// enough is the number of characters that are a secret, whatever they are, where one is
// expected.
const enough = 40

// mixed is a capital after a small letter, which begins a word.
var mixed = regexp.MustCompile(`[a-z][A-Z]`)

// value is characters that may be a secret.
type value struct {
	at      jsonspan.Span
	text    []byte // with the punctuation that follows
	longest int    // the length of the longest stretch of letters and digits
	likeKey bool   // one of those stretches looks like a key
}

// valueAt reads the characters of the set from i on. Punctuation that ends a sentence is
// not part of the value.
func valueAt(b []byte, i int, set string) value {
	v := value{text: b[i:skip(b, i, set)]}
	v.at = jsonspan.Span{From: i, To: i + len(bytes.TrimRight(v.text, ".:!?"))}
	for part := range bytes.FieldsFuncSeq(v.text, separates) {
		v.longest = max(v.longest, len(part))
		v.likeKey = v.likeKey || len(part) >= 8 &&
			(mixed.Match(part) || bytes.ContainsAny(part, decimal) && bytes.ContainsAny(part, letters))
	}
	return v
}

func separates(r rune) bool { return !is(byte(r), alphanumeric) }

// has reports whether the value has a character of the set.
func (v *value) has(set string) bool { return bytes.ContainsAny(v.text, set) }

// isWord reports whether the value is one of noSecrets.
func (v *value) isWord() bool {
	return len(v.text) <= 16 && slices.Contains(noSecrets, strings.ToLower(string(bytes.TrimRightFunc(v.text, separates))))
}

// isSecretOf reports whether the value is a secret after a name. sure says that the name
// is certain to be that of a secret.
func (v *value) isSecretOf(sure bool) bool {
	n, digit := len(v.text), v.has(decimal)
	switch {
	case !sure:
		return v.isSecret(digit && v.has(letters) && n >= 6 || n >= 8 && mixed.Match(v.text) || v.longest >= 16)
	case digit && !v.has(letters+others):
		return v.isSecret(n >= 4)
	}
	return v.isSecret(digit || n >= 6 || mixed.Match(v.text))
}

// isSecretAfter reports whether the value is a secret after the scheme.
func (v *value) isSecretAfter(scheme string) bool {
	return v.isSecret(scheme == "Bearer" || v.has(decimal) || v.longest >= 16 || len(v.text) >= 4 && mixed.Match(v.text) ||
		v.has(others) && !strings.EqualFold(scheme, "basic"))
}

// isSecret reports whether the value is a secret. looksLikeOne decides about those that
// are short.
func (v *value) isSecret(looksLikeOne bool) bool {
	n := len(v.text)
	return n >= 3 && v.at.Ok() && !v.isWord() && (n >= enough || looksLikeOne && len(bytes.Trim(v.text, "*")) > 0)
}
