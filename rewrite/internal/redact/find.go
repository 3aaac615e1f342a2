package redact

import (
	"bytes"
	"slices"
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
			found(t.span(s))
			continue
		}
		if c := f.b[f.i]; (c == 'm' || c == 'M') && begins(f.b[f.i:], "mailto:") {
			f.i += len("mailto") // the name in it is not a user with a password
		}
		f.i, f.before, f.last = f.i+1, f.last, f.b[f.i]
	}
}

// span returns where the characters s stand. Calls come in order.
func (t *text) span(s jsonspan.Span) jsonspan.Span {
	return jsonspan.Span{From: t.index(s.From), To: t.index(s.To)}
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
			s = f.afterName(end, p.only || f.last == '-' || f.last == '_' || beginsWord(c, f.last), p.only)
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
	for n := 1; n > 0; i += n {
		if n = f.separates(i, isBlank|isQuote, ":=<({"); f.char(i) >= 0x80 {
			n = 1
		}
	}
	if v := valueAt(f.b, i, inValue); i > from && v.isSecretAfter(scheme) {
		return v.at
	}
	return s
}

// separates returns the length of the character at i if that is a percent-encoded separator,
// one of the classes or one of others, and otherwise 0.
func (f *finder) separates(i int, class uint8, others string) int {
	c := f.char(i)
	switch {
	case c == '%' && slices.ContainsFunc(encoded, func(e string) bool { return begins(f.b[i:], e) }):
		return len("%20")
	case i < len(f.b) && (classes[c]&class != 0 || strings.IndexByte(others, c) >= 0):
		return 1
	}
	return 0
}

// encoded are percent-encoded separators.
var encoded = []string{"%20", "%3a", "%3d", "%22"}

// afterName returns the secret after a name that ends at i: "name": "…", name=…,
// ('name', '…') and the like. sure and only are as in ownsSecret.
func (f *finder) afterName(i int, sure, only bool) (s jsonspan.Span) {
	end := i
	for i < len(f.b) && (classes[f.b[i]]&(isBlank|isQuote) != 0 || f.b[i] == ']' || f.b[i] == ')') {
		i++
	}
	quoted, apart := bytes.ContainsAny(f.b[end:i], "\"'`"), bytes.ContainsFunc(f.b[end:i], isSpace)
	from := f.separator(i)
	pair := from > 0 && f.b[from-1] == ','
	if from == 0 || pair && !quoted {
		return s
	}
	equals := bytes.ContainsAny(f.b[i:from], "=%")
	for i = from; classes[f.char(i)]&isBlank != 0 && i < len(f.b); {
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

// separator returns the index after the separator at i between a name and its value, which may
// be the comma of a pair, or 0 if there is none.
func (f *finder) separator(i int) int {
	if f.char(i) == ',' {
		return i + 1
	}
	from := i
	for n := f.separates(i, 0, ":="); n > 0; n = f.separates(i, 0, ":=>") {
		i += n
	}
	if i == from {
		return 0
	}
	return i
}

// isSpace reports whether r is white space or a control character.
func isSpace(r rune) bool { return r < 0x80 && classes[r]&isBlank != 0 }

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
	switch {
	case string(b[i:]) == mark, rest == len(b) && !first.isSecretOf(sure):
	case rest == len(b), sure && len(b)-i >= 6 && !bytes.ContainsFunc(b[rest:], isSpace), only && !first.isWord:
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
	for ; i < len(f.b) && classes[f.b[i]]&(isBlank|isQuote) == 0 && strings.IndexByte(`<>[],\`, f.b[i]) < 0; i++ {
		c := f.b[i]
		if c == '/' && !path && (digits || at > 0) { // there is no password but nothing, or a port
			break
		}
		path = path || c == '/'
		digits = digits && classes[c]&isDecimal != 0
		if c == '@' {
			if at = i; path {
				break
			}
		}
	}
	host := f.char(at + 1)
	if at > from && (classes[host]&(letter|isDecimal) != 0 || host >= 0x80 || host > 0 && strings.IndexByte("[{%", host) >= 0) {
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
			if p.only || i == 0 || classes[name[i-1]]&(letter|isDecimal) == 0 || beginsWord(c, name[i-1]) {
				return true, p.only
			}
		}
	}
	return false, false
}

// beginsWord reports whether c is a capital after a small letter, which begins a word.
func beginsWord(c, before byte) bool { return classes[c]&isUpper != 0 && classes[before]&isLower != 0 }
