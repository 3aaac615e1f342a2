package redact

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// finder goes over the characters of a text from secret to secret. It reads each a few
// times at most: a value that is no secret is short, or the finder remembers how far it went.
type finder struct {
	chars     []byte // white space is a space, and what is not ASCII 0x80
	r         reader // is before the character n
	n         int
	done      int // where the last secret ends
	noAtUntil int // the index up to which there is no @ after a password
}

// each calls found for every secret in the text, in order.
func (f *finder) each(found func(secret jsonspan.Span)) {
	for i := 0; i < len(f.chars); i++ {
		if s := f.secret(i); s.Ok() {
			found(f.span(s))
			f.done, i = s.To, s.To-1
		}
	}
}

// secret returns the secret that begins at i, or that the word or the separator there announces.
func (f *finder) secret(i int) (s jsonspan.Span) {
	switch c := f.chars[i]; c {
	case ':', '=', ',', '%':
		if s = f.afterName(i); !s.Ok() && c == ':' {
			s = f.password(i)
		}
	case 'b', 'B':
		for _, scheme := range []string{"bearer", "basic"} {
			if begins(f.chars[i:], scheme) {
				return f.afterScheme(i, i+len(scheme))
			}
		}
	default:
		for _, p := range prefixes[c] {
			if bytes.HasPrefix(f.chars[i:], []byte(p.word)) {
				return f.key(i, p)
			}
		}
	}
	return s
}

// before returns the character before i, which may be that of a mark, or 0.
func (f *finder) before(i int) byte {
	switch {
	case i > f.done:
		return f.chars[i-1]
	case i > 0:
		return mark[len(mark)-1]
	}
	return 0
}

// key returns the key that begins at i with the prefix. Words may contain the prefix, as in
// task-force.
func (f *finder) key(i int, p prefix) (s jsonspan.Span) {
	last := f.before(i)
	inWord := is(last, letters) && !(f.before(i-1) == '\\' && is(last, "nrt"))
	v := valueAt(f.chars, i+len(p.word), inKey)
	likeKey := v.likeKey || v.longest >= 20 || len(v.text) >= 2*enough || !inWord && (!p.wordy || v.longest >= 12)
	if likeKey && len(v.text) >= p.least && v.at.Ok() {
		s = jsonspan.Span{From: i, To: v.at.To}
	}
	return s
}

// afterScheme returns the secret after the name of a scheme of Authorization headers, which
// is from i to end.
func (f *finder) afterScheme(i, end int) (s jsonspan.Span) {
	from := f.separated(end, " <({\x80"+quotes+separators)
	if from == end { // nothing is read, as many names may follow each other
		return s
	}
	if v := valueAt(f.chars, from, inValue); v.isSecretAfter(string(f.chars[i:end])) {
		s = v.at
	}
	return s
}

// separated returns the index after the characters of the set at i, and percent-encoded
// separators.
func (f *finder) separated(i int, set string) int {
	for {
		next := skip(f.chars, i, set)
		for _, s := range []string{"%20", "%3a", "%3d", "%22"} {
			if begins(f.chars[next:], s) {
				next += len(s)
			}
		}
		if next == i {
			return i
		}
		i = next
	}
}

// afterName returns the secret after a name and the separator at i, if one is there:
// "name": "…", name=…, ('name', '…') and the like.
func (f *finder) afterName(i int) (s jsonspan.Span) {
	b := f.chars
	end := f.done + len(bytes.TrimRight(b[f.done:i], " ])"+quotes))
	name, only := secretName(b[f.done:end])
	if name < 0 {
		return s
	}
	quoted, apart, pair := bytes.ContainsAny(b[end:i], quotes), bytes.IndexByte(b[end:i], ' ') >= 0, b[i] == ','
	from := i + 1
	if !pair {
		from = f.separated(i, ">"+separators)
	}
	if from == i || pair && !quoted {
		return s
	}
	name += f.done
	value := skip(b, from, " ")
	sure := only || quoted || is(f.before(name), "-_") || beginsWord(b[name], f.before(name)) ||
		!apart && value == from && bytes.ContainsAny(b[i:from], "=%")
	if is(f.char(value), "bu") && is(f.char(value+1), quotes) { // Python's b'…'
		value++
	}
	if is(f.char(value), quotes) {
		if n := bytes.IndexByte(b[value+1:], b[value]); n >= 0 {
			if end := value + 1 + n; !pair || f.char(end+1) == ')' { // otherwise elements of a list
				s = wholeSecret(b[:end], value+1, sure, only)
			}
			return s
		}
		value, pair = value+1, false
	}
	if v := valueAt(b, afterWord(b, value), inValue); !pair && v.isSecretOf(sure) {
		s = v.at
	}
	return s
}

// beginsWord reports whether c is a capital after a small letter, which begins a word.
func beginsWord(c, before byte) bool { return is(c, upper) && is(before, lower) }

// char returns the character at i, 0 at the end.
func (f *finder) char(i int) byte {
	if i >= len(f.chars) {
		return 0
	}
	return f.chars[i]
}

// afterWord returns the index after the scheme at i, as Authorization headers have it
// before their value, or i if there is none.
func afterWord(b []byte, i int) int {
	end := skip(b, i, letters)
	if end < len(b) && b[end] == ' ' && slices.Contains(schemes, strings.ToLower(string(b[i:end]))) {
		return end + 1
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
	rest := b[i+len(first.text):] // with the end of a sentence
	switch {
	case string(b[i:]) == mark, len(rest) == 0 && !first.isSecretOf(sure):
	case len(rest) == 0, sure && len(b)-i >= 6 && bytes.IndexByte(rest, ' ') < 0, only && !first.isWord():
		return jsonspan.Span{From: i, To: len(b)}
	case first.isSecretOf(false):
		return first.at
	}
	return s
}

// password returns the password after the colon at i, in an address such as
// user:password@host.
func (f *finder) password(i int) (s jsonspan.Span) {
	if i < f.noAtUntil || !is(f.before(i), "]\x80"+inValue) || endsWith(f.chars[f.done:i], "mailto") {
		return s
	}
	i++
	from, at := i, 0 // at is the index of the last @
	digits, path := true, false
	for ; i < len(f.chars) && !is(f.chars[i], ` <>[],\`+quotes); i++ {
		c := f.chars[i]
		if c == '/' && !path && (digits || at > 0) { // there is no password but nothing, or a port
			break
		}
		path = path || c == '/'
		digits = digits && is(c, decimal)
		if c == '@' {
			if at = i; path {
				break
			}
		}
	}
	masked := at-from < enough && len(bytes.Trim(f.chars[from:max(at, from)], "*")) == 0 // or empty
	if at > 0 && !masked && is(f.char(at+1), "[{%\x80"+alphanumeric) {
		return jsonspan.Span{From: from, To: at}
	}
	if at > 0 || !digits {
		f.noAtUntil = i
	}
	return s
}
