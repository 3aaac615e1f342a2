// Package redact takes secrets out of what upstream says of a failure (contract section
// 3): keys with a known prefix, the value after a scheme such as Bearer, the password of a
// URL, and the value after the name of a secret.
//
//	redact.go  texts and JSON values without their secrets
//	text.go    the characters of a text, however often it was escaped
//	table.go   the words that begin or announce a secret
//	find.go    the pass over the characters, from secret to secret
//	said.go    the provider's words in the text of an answer
//
// Secrets are replaced by position, so that all other bytes stay. Redacting twice is the
// same as redacting once. The time is linear in the length of the text.
//
// The prefixes are those of the rules of gitleaks (MIT) and of model providers. The
// gitleaks library itself does not fit: it has 74 modules, its 221 regular expressions
// take 20 ms to compile and 2 ms for each message, and they do not see through the escapes
// of JSON.
package redact

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// What replaces a secret. Once a text with many secrets has grown by MaxGrowth, stars
// replace the rest.
const (
	mark  = "[redacted]"
	stars = "***"
)

var markBytes, starBytes = []byte(mark), []byte(stars)

// MaxGrowth is how many bytes longer a value may become (contract section 3).
const MaxGrowth = 64 << 10

// Replacer chooses what replaces the secrets of one value, so that the value grows by
// MaxGrowth at most.
type Replacer struct{ grown int }

// For returns what replaces the secret. The bytes are shared and must not be changed.
func (r *Replacer) For(secret jsonspan.Span) []byte {
	n := max(len(mark)-(secret.To-secret.From), 0)
	if r.grown+n > MaxGrowth {
		return starBytes
	}
	r.grown += n
	return markBytes
}

// Text returns text, the inside of a JSON string or any other text, without secrets. If
// there are none it returns text itself, and otherwise a copy.
func Text(text []byte) []byte {
	return Replace(text, func(each func(jsonspan.Span)) { EachInText(text, each) })
}

// Value returns the JSON value b without the secrets in its strings. If there are none it
// returns b itself, and otherwise a copy. b need not be well formed.
func Value(b []byte) []byte {
	return Replace(b, func(each func(jsonspan.Span)) { EachInValue(b, each) })
}

// Replace returns b without the secrets for which find calls each, in order.
func Replace(b []byte, find func(each func(jsonspan.Span))) []byte {
	var out []byte
	var r Replacer
	at := 0
	find(func(s jsonspan.Span) {
		if at == 0 {
			out = make([]byte, 0, min(2*len(b), len(b)+MaxGrowth)+len(mark))
		}
		out = append(append(out, b[at:s.From]...), r.For(s)...)
		at = s.To
	})
	if at == 0 {
		return b
	}
	return append(out, b[at:]...)
}

// EachInText calls each for every secret in a text, in order.
func EachInText(b []byte, each func(secret jsonspan.Span)) {
	f := decode(b, 0, len(b))
	f.each(each)
}

// EachInValue calls each for every secret in the strings of the JSON value b, in order.
// The name of a member may say that its value is a secret.
func EachInValue(b []byte, each func(secret jsonspan.Span)) {
	var sure, only bool // as ownsSecret says of the last member's name
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return
		}
		from, end := i+n+1, jsonspan.SkipString(b, i+n)
		if end < 0 { // the string does not end
			end = len(b) + 1
		}
		f := decode(b, from, end-1)
		i = min(end, len(b))
		if next := jsonspan.SkipSpace(b, i); next < len(b) && b[next] == ':' {
			sure, only = ownsSecret(f.chars)
		} else if sure {
			if s := wholeSecret(f.chars, 0, sure, only); s.Ok() {
				each(f.span(s))
				continue
			}
		}
		f.each(each)
	}
}

// ownsSecret reports whether the value of the member with the name is a secret (sure),
// and whether the name means nothing else (only).
func ownsSecret(name []byte) (sure, only bool) {
	i, only := secretName(name)
	if i < 0 || begins(name[i:], "provided") || begins(name, "pattern") { // as in approval.request
		return false, false
	}
	return only || i == 0 || !is(name[i-1], alphanumeric) || beginsWord(name[i], name[i-1]), only
}
