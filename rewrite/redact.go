package rewrite

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
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

func (r *redaction) of(secret jsonspan.Span) []byte {
	n := max(len(redacted)-(secret.To-secret.From), 0)
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
	return redactEach(text, func(each func(jsonspan.Span)) { eachSecretOf(text, each) })
}

// redact returns the JSON value b without secrets.
func redact(b []byte) []byte {
	if !mayHoldSecret(b) {
		return b
	}
	return redactEach(b, func(each func(jsonspan.Span)) { eachSecret(b, each) })
}

// redactEach returns b without the secrets that find calls its argument with.
func redactEach(b []byte, find func(each func(jsonspan.Span))) []byte {
	var out []byte
	var r redaction
	at := 0
	find(func(s jsonspan.Span) {
		if at == 0 {
			out = make([]byte, 0, min(2*len(b), len(b)+maxRedactedGrowth)+len(redacted))
		}
		out = append(append(out, b[at:s.From]...), r.of(s)...)
		at = s.To
	})
	if at == 0 {
		return b
	}
	return append(out, b[at:]...)
}

// redactIn adds the edits that take secrets out of the strings in the JSON value at
// v. All other bytes stay.
func (s *Stream) redactIn(v jsonspan.Span) {
	if b := v.Of(s.f.Data); mayHoldSecret(b) {
		s.redactBy(v, func(each func(jsonspan.Span)) { eachSecret(b, each) })
	}
}

// redactData does so where the data of the frame s.f is no JSON that is well formed.
func (s *Stream) redactData() {
	if b := s.f.Data; mayHoldSecret(b) {
		s.redactBy(jsonspan.Span{From: 0, To: len(b)}, func(each func(jsonspan.Span)) { eachSecretOf(b, each) })
	}
}

// redactBy adds the edits that replace the secrets in the data at v that find calls
// its argument with.
func (s *Stream) redactBy(v jsonspan.Span, find func(each func(secret jsonspan.Span))) {
	b := v.Of(s.f.Data)
	var r redaction
	var rest []byte
	n, from, at := 0, 0, 0
	find(func(secret jsonspan.Span) {
		s.note(sectionEnd, "a secret in what upstream says of a failure: redacted")
		with := r.of(secret)
		if n++; n <= maxRedactedEdits {
			s.edits.Replace(&s.f, v.From+secret.From, v.From+secret.To, with)
			return
		}
		if rest == nil {
			from, at = secret.From, secret.From
			rest = make([]byte, 0, min(2*(len(b)-at), len(b)-at+2*maxRedactedGrowth))
		}
		rest = append(append(rest, b[at:secret.From]...), with...)
		at = secret.To
	})
	if rest != nil {
		s.edits.Replace(&s.f, v.From+from, v.To, jsonspan.OneLine(append(rest, b[at:]...)))
	}
}

// eachSecretOf calls each with the secrets in a text.
func eachSecretOf(text []byte, each func(secret jsonspan.Span)) {
	f := finder{b: text}
	for s, ok := f.next(); ok; s, ok = f.next() {
		each(s)
	}
}

// eachSecret calls each with the secrets in the strings of the JSON value b.
func eachSecret(b []byte, each func(secret jsonspan.Span)) {
	var sure, only bool // of the name of the member
	for i := indexFrom(b, 0, '"'); i < len(b); i = indexFrom(b, i, '"') {
		in, end := i+1, jsonspan.SkipString(b, i)
		if end < 0 { // it is torn
			end = len(b) + 1
		}
		text := b[in : end-1]
		i = min(end, len(b))
		if next := jsonspan.SkipSpace(b, i); next < len(b) && b[next] == ':' {
			sure, only = ownsSecret(text)
		} else if sure {
			f := finder{b: text}
			if s := f.whole(jsonspan.Span{From: 0, To: len(text)}, sure, only); s.Ok() {
				each(jsonspan.Span{From: in + s.From, To: in + s.To})
				continue
			}
		}
		eachSecretOf(text, func(s jsonspan.Span) { each(jsonspan.Span{From: in + s.From, To: in + s.To}) })
	}
}

// indexFrom returns the index of the first c in b from i on, len(b) if there is none.
func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
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
