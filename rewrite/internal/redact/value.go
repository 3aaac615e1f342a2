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
	at      jsonspan.Span
	n       int   // the number of characters, with the punctuation that follows
	kinds   uint8 // which of isLower, isUpper and isDecimal they have
	mixed   bool  // a capital follows a small letter
	other   bool  // one is neither a letter, nor a digit, nor a hyphen
	stars   bool  // all are stars
	isWord  bool  // it is one of noSecrets
	longest int   // the length of the longest stretch of letters and digits
	likeKey bool  // one of those stretches looks like a key
}

// valueAt reads the characters of the class from i on. Punctuation that ends a sentence is
// not part of the value.
func valueAt(b []byte, i int, class uint8) value {
	v := value{at: jsonspan.Span{From: i, To: i}, stars: true}
	var part value // the stretch that is read
	for ; i < len(b) && classes[b[i]]&class != 0; i++ {
		c := b[i]
		if classes[c]&(letter|isDecimal) == 0 {
			part = value{}
			v.other = v.other || c != '-'
		} else {
			mixed := v.n > 0 && classes[c]&isUpper != 0 && classes[b[i-1]]&isLower != 0
			part.n++
			part.kinds |= classes[c] & (letter | isDecimal)
			part.mixed = part.mixed || mixed
			v.kinds, v.mixed, v.longest = v.kinds|part.kinds, v.mixed || mixed, max(v.longest, part.n)
			v.likeKey = v.likeKey || part.n >= 8 && (part.mixed || part.kinds&isDecimal != 0 && part.kinds&letter != 0)
		}
		v.n++
		v.stars = v.stars && c == '*'
		if c != '.' && c != ':' && c != '!' && c != '?' {
			v.at.To = i + 1
		}
	}
	if v.n <= 16 && v.kinds&isDecimal == 0 {
		word := bytes.TrimRightFunc(b[i-v.n:i], func(r rune) bool { return classes[byte(r)]&letter == 0 })
		v.isWord = slices.Contains(noSecrets, strings.ToLower(string(word)))
	}
	return v
}

// isSecretOf reports whether the value is a secret after a name. sure says that the name
// is certain to be that of a secret.
func (v *value) isSecretOf(sure bool) bool {
	digits, letters := v.kinds&isDecimal != 0, v.kinds&letter != 0
	switch {
	case !sure:
		return v.isSecret(digits && letters && v.n >= 6 || v.mixed && v.n >= 8 || v.longest >= 16)
	case digits && !letters && !v.other:
		return v.isSecret(v.n >= 4)
	}
	return v.isSecret(digits || v.mixed || v.n >= 6)
}

// isSecretAfter reports whether the value is a secret after the scheme.
func (v *value) isSecretAfter(scheme string) bool {
	return v.isSecret(scheme == "Bearer" || v.kinds&isDecimal != 0 || v.mixed && v.n >= 4 || v.longest >= 16 || v.other && scheme != "basic")
}

// isSecret reports whether the value is a secret. looksLikeOne decides about those that
// are short.
func (v *value) isSecret(looksLikeOne bool) bool {
	possible := v.at.Ok() && v.n >= 3 && !v.isWord && !(v.stars && v.n < enough)
	return possible && (looksLikeOne || v.n >= enough)
}
