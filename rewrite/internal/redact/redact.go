package redact

import (
	"bytes"
	"slices"
	"strings"

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
func Text(text []byte) []byte { return without(text, EachInText) }

// Value returns the JSON value b without the secrets in its strings. If there are none it
// returns b itself, and otherwise a copy. b need not be well formed.
func Value(b []byte) []byte { return without(b, EachInValue) }

func without(b []byte, eachIn func([]byte, func(jsonspan.Span))) []byte {
	if !MayHold(b) {
		return b
	}
	return Replace(b, func(each func(jsonspan.Span)) { eachIn(b, each) })
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
func EachInText(text []byte, each func(secret jsonspan.Span)) {
	f := finder{b: text}
	for s, ok := f.next(); ok; s, ok = f.next() {
		each(s)
	}
}

// EachInValue calls each for every secret in the strings of the JSON value b, in order.
// The name of a member may say that its value is a secret.
func EachInValue(b []byte, each func(secret jsonspan.Span)) {
	var sure, only bool // what ownsSecret says of the last member's name
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return
		}
		in, end := i+n+1, jsonspan.SkipString(b, i+n)
		if end < 0 { // the string does not end
			end = len(b) + 1
		}
		text := b[in : end-1]
		i = min(end, len(b))
		found := func(s jsonspan.Span) { each(jsonspan.Span{From: in + s.From, To: in + s.To}) }
		if next := jsonspan.SkipSpace(b, i); next < len(b) && b[next] == ':' {
			sure, only = ownsSecret(text)
		} else if sure {
			f := finder{b: text}
			if s := f.whole(jsonspan.Span{From: 0, To: len(text)}, sure, only); s.Ok() {
				found(s)
				continue
			}
		}
		EachInText(text, found)
	}
}

// MayHold reports whether there may be a secret in b, a JSON value or a text. It is
// cheap and errs only by returning true.
func MayHold(b []byte) bool {
	for i, c := range b {
		if !hints[c] {
			continue
		}
		switch c {
		case '\\':
			if i+5 < len(b) && string(b[i+1:i+4]) == "u00" && b[i+4] >= '2' && b[i+4] <= '7' {
				return true
			}
		case '@':
			return true
		case 'b', 'B':
			if i+1 < len(b) && (b[i+1]|0x20 == 'e' || b[i+1]|0x20 == 'a') && (wordAt(b, i, "bearer", true) > 0 || wordAt(b, i, "basic", true) > 0) {
				return true
			}
		case ':', '=', '%', ',':
			at := i - 1
			if at > 0 && b[at] == '"' {
				at--
			} else if c == ',' && at > 0 && classes[b[at]]&isQuote == 0 && classes[b[at]]&isBlank == 0 {
				continue
			}
			if at > 0 && classes[b[at]]&letter != 0 && !nameEnds.fit(b[:at+1]) {
				continue // as for most names
			}
			if endsName(b[:i]) {
				return true
			}
		default:
			endsWith := func(f keyFormat) bool { return bytes.HasSuffix(b[:i+1], []byte(f.prefix)) }
			if prefixEnds.fit(b[:i+1]) && slices.ContainsFunc(keyFormats, endsWith) {
				return true
			}
		}
	}
	return false
}

// endsName reports whether b ends with the name of a secret, followed by nothing but
// quotes, white space and their escapes.
func endsName(b []byte) bool {
	i := len(b)
	for i > 0 {
		c := b[i-1]
		escape := i > 1 && b[i-2] == '\\' && strings.IndexByte("nrtbf", c) >= 0
		if classes[c]&(isBlank|isQuote) == 0 && c != ']' && c != ')' && c != '\\' && !escape {
			break
		}
		i--
	}
	if i == 0 || !nameEnds.fit(b[:i]) {
		return false
	}
	return slices.ContainsFunc(secretNames[:], func(n secretName) bool {
		return len(n.name) <= i && wordAt(b, i-len(n.name), n.name, true) == i
	})
}
