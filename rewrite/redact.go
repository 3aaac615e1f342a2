package rewrite

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// What stands where a secret stood. Of a text with so many that they make it much
// longer the rest get stars.
const (
	redacted = "[redacted]"
	starred  = "***"
)

// Bounds on what redaction costs.
const (
	// maxRedactedGrowth is how many bytes longer a text may become.
	maxRedactedGrowth = 64 << 10
	// maxRedactedEdits is how many secrets of a value are replaced one by one.
	// Behind those the value is written anew, up to its end.
	maxRedactedEdits = 1024
)

// redaction says what to put in the place of the secrets of a text.
type redaction struct{ grown int }

func (r *redaction) of(secret span) []byte {
	n := max(len(redacted)-(secret.to-secret.from), 0)
	if r.grown+n > maxRedactedGrowth {
		return starredBytes
	}
	r.grown += n
	return redactedBytes
}

// The two as bytes.
var redactedBytes, starredBytes = []byte(redacted), []byte(starred)

// Redact returns text, in which upstream says something of a failure, without secrets
// (contract section 3).
func Redact(text string) string { return string(redactText([]byte(text))) }

// redactText returns text, the inside of a JSON string or any other, without secrets.
func redactText(text []byte) []byte {
	if !mayHoldSecret(text) {
		return text
	}
	return redactEach(text, func(each func(span)) { eachSecretOf(text, each) })
}

// redact returns the JSON value b without secrets.
func redact(b []byte) []byte {
	if !mayHoldSecret(b) {
		return b
	}
	return redactEach(b, func(each func(span)) { eachSecret(b, each) })
}

// redactEach returns b without the secrets that find calls its argument with.
func redactEach(b []byte, find func(each func(span))) []byte {
	var out []byte
	var r redaction
	at := 0
	find(func(s span) {
		if at == 0 {
			out = make([]byte, 0, min(2*len(b), len(b)+maxRedactedGrowth)+len(redacted))
		}
		out = append(append(out, b[at:s.from]...), r.of(s)...)
		at = s.to
	})
	if at == 0 {
		return b
	}
	return append(out, b[at:]...)
}

// redactIn adds the edits that take secrets out of the strings in the JSON value at
// v. All other bytes stay.
func (s *Stream) redactIn(v span) {
	if b := v.of(s.f.data); mayHoldSecret(b) {
		s.redactBy(v, func(each func(span)) { eachSecret(b, each) })
	}
}

// redactData does so where the data of the frame s.f is no JSON that is well formed.
func (s *Stream) redactData() {
	if b := s.f.data; mayHoldSecret(b) {
		s.redactBy(span{0, len(b)}, func(each func(span)) { eachSecretOf(b, each) })
	}
}

// redactBy adds the edits that replace the secrets in the data at v that find calls
// its argument with.
func (s *Stream) redactBy(v span, find func(each func(secret span))) {
	b := v.of(s.f.data)
	var r redaction
	var rest []byte
	n, from, at := 0, 0, 0
	find(func(secret span) {
		s.note(sectionEnd, "a secret in what upstream says of a failure: redacted")
		with := r.of(secret)
		if n++; n <= maxRedactedEdits {
			s.edit(v.from+secret.from, v.from+secret.to, with)
			return
		}
		if rest == nil {
			from, at = secret.from, secret.from
			rest = make([]byte, 0, min(2*(len(b)-at), len(b)-at+2*maxRedactedGrowth))
		}
		rest = append(append(rest, b[at:secret.from]...), with...)
		at = secret.to
	})
	if rest != nil {
		s.edit(v.from+from, v.to, oneLine(append(rest, b[at:]...)))
	}
}

// eachSecretOf calls each with the secrets in a text.
func eachSecretOf(text []byte, each func(secret span)) {
	f := finder{b: text}
	for s, ok := f.next(); ok; s, ok = f.next() {
		each(s)
	}
}

// eachSecret calls each with the secrets in the strings of the JSON value b.
func eachSecret(b []byte, each func(secret span)) {
	var sure, only bool // of the name of the member
	for i := indexFrom(b, 0, '"'); i < len(b); i = indexFrom(b, i, '"') {
		in, end := i+1, skipString(b, i)
		if end < 0 { // it is torn
			end = len(b) + 1
		}
		text := b[in : end-1]
		i = min(end, len(b))
		if next := blankFrom(b, i); next < len(b) && b[next] == ':' {
			sure, only = ownsSecret(text)
		} else if sure {
			f := finder{b: text}
			if s := f.whole(span{0, len(text)}, sure, only); s.ok() {
				each(span{in + s.from, in + s.to})
				continue
			}
		}
		eachSecretOf(text, func(s span) { each(span{in + s.from, in + s.to}) })
	}
}

// mayHoldSecret tells whether there may be a secret in b, a JSON value or a text. It
// is cheap, and may be wrong in saying so.
func mayHoldSecret(b []byte) bool {
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
				continue // as of most
			}
			if endsName(b[:i]) {
				return true
			}
		default:
			if prefixEnds.fit(b[:i+1]) && endsPrefix(b[:i+1]) {
				return true
			}
		}
	}
	return false
}

// endsPrefix tells whether b ends with the prefix of a format of keys.
func endsPrefix(b []byte) bool {
	for k := range keyFormats {
		if bytes.HasSuffix(b, []byte(keyFormats[k].prefix)) {
			return true
		}
	}
	return false
}

// endsName tells whether b ends with the name of a secret, with no more behind it than
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
	for k := range secretNames {
		n := secretNames[k].name
		if from := i - len(n); from >= 0 && wordAt(b, from, n, true) == i {
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
