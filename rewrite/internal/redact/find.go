package redact

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// finder goes over the characters of a text from secret to secret. It reads each a few
// times at most: an attempt that finds nothing is short, or the finder remembers how far it
// went.
type finder struct {
	b            []byte
	i            int  // how far it has read
	before, last byte // the two characters before that
	noKeyUntil   int  // the index up to which nothing looks like a key
	noAtUntil    int  // the index up to which there is no @ after a password
}

// each calls found for every secret in the text, in order.
func (t *text) each(found func(secret jsonspan.Span)) {
	f := finder{b: t.chars}
	for f.i < len(f.b) {
		if s := f.secret(); s.Ok() {
			f.i, f.before, f.last = s.To, 'd', ']' // as if it had been redacted
			found(jsonspan.Span{From: t.index(s.From), To: t.index(s.To)})
			continue
		}
		if c := f.b[f.i]; (c == 'm' || c == 'M') && begins(f.b[f.i:], "mailto:") {
			f.i += len("mailto") // the name in it is not a user with a password
		}
		f.i, f.before, f.last = f.i+1, f.last, f.b[f.i]
	}
}

// secret returns the secret that begins at f.i, or that the word there announces.
func (f *finder) secret() (s jsonspan.Span) {
	c := f.b[f.i]
	if c == ':' {
		return f.password(f.i + 1)
	}
	for k := range patterns[c] {
		p := &patterns[c][k]
		if !p.matches(f.b[f.i:]) {
			continue
		}
		switch end := f.i + len(p.word); p.kind {
		case isKey:
			s = f.key(end, p)
		case isScheme:
			s = f.afterScheme(end, p.word)
		case isName:
			capital := classes[c]&isUpper != 0 && classes[f.last]&isLower != 0
			s = f.afterName(end, p.only || f.last == '-' || f.last == '_' || capital, p.only)
		}
		if s.Ok() {
			return s
		}
	}
	return s
}

// key returns the key that the prefix of p begins, which ends at i. Words may contain the
// prefix, as in task-force.
func (f *finder) key(i int, p *pattern) (s jsonspan.Span) {
	inWord := classes[f.last]&letter != 0 && !(f.before == '\\' && (f.last == 'n' || f.last == 'r' || f.last == 't'))
	if (inWord || p.wordy) && i < f.noKeyUntil {
		return s
	}
	v := valueAt(f.b, i, inKey)
	switch {
	case v.n < p.least || !v.at.Ok():
		return s
	case v.likeKey, v.longest >= 20, !inWord && (!p.wordy || v.longest >= 12):
		return jsonspan.Span{From: f.i, To: v.at.To}
	}
	f.noKeyUntil = v.at.To
	return s
}

// afterScheme returns the secret after the name of a scheme that ends at i.
func (f *finder) afterScheme(i int, scheme string) (s jsonspan.Span) {
	from := i
	for i < len(f.b) {
		c := f.b[i]
		if f.encoded(i) {
			i += len("%20")
		} else if classes[c]&(isBlank|isQuote) == 0 && c < 0x80 && strings.IndexByte(":=<({", c) < 0 {
			break
		} else {
			i++
		}
	}
	if v := valueAt(f.b, i, inValue); i > from && v.isSecretAfter(scheme) {
		return v.at
	}
	return s
}

// encoded reports whether a percent-encoded separator is at i.
func (f *finder) encoded(i int) bool {
	for _, e := range [...]string{"%20", "%3a", "%3d", "%22"} {
		if f.char(i) == '%' && begins(f.b[i:], e) {
			return true
		}
	}
	return false
}

// afterName returns the secret after a name that ends at i: "name": "…", name=…,
// ('name', '…') and the like. sure and only are as in ownsSecret.
func (f *finder) afterName(i int, sure, only bool) (s jsonspan.Span) {
	quoted, apart := false, false
	for ; i < len(f.b); i++ {
		class := classes[f.b[i]]
		if class&(isBlank|isQuote) == 0 && f.b[i] != ']' && f.b[i] != ')' {
			break
		}
		quoted, apart = quoted || class&isQuote != 0, apart || class&isBlank != 0
	}
	i, equals, pair := f.separator(i)
	if i == 0 || pair && !quoted {
		return s
	}
	from := i
	for classes[f.char(i)]&isBlank != 0 && i < len(f.b) {
		i++
	}
	sure = sure || quoted || equals && !apart && i == from
	if c := f.char(i); (c == 'b' || c == 'u') && classes[f.char(i+1)]&isQuote != 0 { // Python's b'…'
		i++
	}
	if quote := f.char(i); classes[quote]&isQuote != 0 {
		i++
		if n := bytes.IndexByte(f.b[i:], quote); n >= 0 {
			if pair && f.char(i+n+1) != ')' { // elements of a list
				return s
			}
			return wholeSecret(f.b[:i+n], i, sure, only)
		}
	} else if pair {
		return s
	}
	if v := valueAt(f.b, afterWord(f.b, i), inValue); v.isSecretOf(sure) {
		return v.at
	}
	return s
}

// separator returns the index after the separator between a name and its value, or 0 if
// there is none. equals reports whether there is an equals sign in it, and pair whether
// it is the comma of a pair.
func (f *finder) separator(i int) (next int, equals, pair bool) {
	for i < len(f.b) {
		switch c := f.b[i]; {
		case f.encoded(i):
			i, equals = i+len("%20"), true
		case c == '=':
			i, equals = i+1, true
		case c == ',' && next == 0:
			return i + 1, false, true
		case c == ':' || c == '>' && next > 0:
			i++
		default:
			return next, equals, false
		}
		next = i
	}
	return next, equals, false
}

// char returns the character at i, 0 at the end.
func (f *finder) char(i int) byte {
	if i >= len(f.b) {
		return 0
	}
	return f.b[i]
}

// afterWord returns the index after the scheme at i, as Authorization headers have it
// before their value, or i if there is none.
func afterWord(b []byte, i int) int {
	for _, scheme := range schemes {
		if n := i + len(scheme); n < len(b) && begins(b[i:], scheme) && classes[b[n]]&isBlank != 0 {
			return n + 1
		}
	}
	return i
}

// wholeSecret returns the secret in the value b[i:], which is all of the text between two
// quotes.
func wholeSecret(b []byte, i int, sure, only bool) (s jsonspan.Span) {
	if from := afterWord(b, i); from > i {
		i, only = from, false
	}
	first := valueAt(b, i, inValue)
	rest := i + first.n // with the end of a sentence
	blank := bytes.ContainsFunc(b[rest:], func(r rune) bool { return r < 0x80 && classes[r]&isBlank != 0 })
	switch {
	case string(b[i:]) == mark, rest == len(b) && !first.isSecretOf(sure):
	case rest == len(b), !blank && sure && len(b)-i >= 6, only && !first.isWord:
		return jsonspan.Span{From: i, To: len(b)}
	case first.isSecretOf(false):
		return first.at
	}
	return s
}

// password returns the password in an address such as user:password@host. i is the index
// after the colon.
func (f *finder) password(i int) (s jsonspan.Span) {
	user := classes[f.last]&inValue != 0 || f.last == ']' || f.last >= 0x80
	if !user || i < f.noAtUntil {
		return s
	}
	from, at := i, 0 // at is the index of the last @
	digits, path := true, false
	for ; i < len(f.b); i++ {
		c := f.b[i]
		if c == '/' && !path {
			if digits || at > 0 { // there is no password but nothing, or a port
				break
			}
			path = true
		}
		if classes[c]&(isBlank|isQuote) != 0 || strings.IndexByte(`<>[],\`, c) >= 0 {
			break
		}
		digits = digits && classes[c]&isDecimal != 0
		if c == '@' {
			if at = i; path {
				break
			}
		}
	}
	if host := f.char(at + 1); at > from && (classes[host]&(letter|isDecimal) != 0 || host == '[' || host == '{' || host == '%' || host >= 0x80) {
		if v := valueAt(f.b, from, inKey); !v.stars || v.n >= enough {
			return jsonspan.Span{From: from, To: at}
		}
	}
	if at > 0 || !digits {
		f.noAtUntil = i
	}
	return s
}

// ownsSecret reports whether the value of the member with the name is a secret (sure),
// and whether the name means nothing else (only).
func ownsSecret(name []byte) (sure, only bool) {
	if begins(name, "pattern") { // what approval.request asks about
		return false, false
	}
	for i, c := range name {
		for _, p := range patterns[c] {
			if p.kind != isName || i+len(p.word) != len(name) || p.word == "provided" || !p.matches(name[i:]) {
				continue
			}
			if p.only || i == 0 || classes[name[i-1]]&(letter|isDecimal) == 0 || classes[c]&isUpper != 0 && classes[name[i-1]]&isLower != 0 {
				return true, p.only
			}
		}
	}
	return false, false
}
