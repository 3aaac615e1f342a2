package redact

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// each calls found for every secret in the text, in order. It reads each character a few times at
// most: a value that is no secret is short, or the finder remembers how far it went.
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
		for _, scheme := range schemes[:2] {
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

// key returns the key that begins at i with the prefix. Words may contain the prefix, as in
// task-force.
func (f *finder) key(i int, p prefix) (s jsonspan.Span) {
	last := f.before(i)
	inWord := is(last, letters) && !(f.before(i-1) == '\\' && is(last, "nrt"))
	from := i + len(p.word)
	v := valueAt(f.chars, from, inKey)
	longest, likeKey := stretches(v)
	likeKey = likeKey || longest >= 20 || len(v) >= 2*enough || !inWord && (!p.wordy || longest >= 12)
	if at := sentence(from, v); likeKey && len(v) >= p.least && at.Ok() {
		s = jsonspan.Span{From: i, To: at.To}
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
	v, scheme := valueAt(f.chars, from, inValue), string(f.chars[i:end])
	longest, _ := stretches(v)
	if isSecret(v, scheme == "Bearer" || bytes.ContainsAny(v, decimal) || longest >= 16 || len(v) >= 4 && mixed.Match(v) ||
		bytes.ContainsAny(v, others) && !strings.EqualFold(scheme, "basic")) {
		s = sentence(from, v)
	}
	return s
}

// separated returns the index after the characters of the set at i, and percent-encoded
// separators.
func (f *finder) separated(i int, set string) int {
	for {
		switch {
		case i < len(f.chars) && is(f.chars[i], set):
			i++
		case slices.ContainsFunc(encoded, func(s string) bool { return begins(f.chars[i:], s) }):
			i += len("%20")
		default:
			return i
		}
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
	value = afterWord(b, value)
	if v := valueAt(b, value, inValue); !pair && isSecretOf(v, sure) {
		s = sentence(value, v)
	}
	return s
}

// beginsWord reports whether c is a capital after a small letter, which begins a word.
func beginsWord(c, before byte) bool { return is(c, upper) && is(before, lower) }

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
	v := valueAt(b, i, inValue)
	rest := b[i+len(v):]
	switch {
	case string(b[i:]) == mark, len(rest) == 0 && !isSecretOf(v, sure):
	case len(rest) == 0, sure && len(b)-i >= 6 && bytes.IndexByte(rest, ' ') < 0, only && !isWord(v):
		return jsonspan.Span{From: i, To: len(b)}
	case isSecretOf(v, false):
		return sentence(i, v)
	}
	return s
}

// password returns the password after the colon at i, in an address such as
// user:password@host.
func (f *finder) password(i int) (s jsonspan.Span) {
	b, from := f.chars, i+1
	if i < f.noAtUntil || !is(f.before(i), "]\x80"+inValue) || endsWith(b[f.done:i], "mailto") {
		return s
	}
	end := until(b, from, "/"+noPassword)
	at := from + bytes.LastIndexByte(b[from:end], '@')
	if at < from && f.char(end) == '/' && skip(b, from, decimal) < end { // neither a port nor ://
		if end = until(b, end, "@"+noPassword); f.char(end) == '@' {
			at = end
		}
	}
	masked := at-from < enough && len(bytes.Trim(b[from:max(at, from)], "*")) == 0 // or empty
	if at >= from && !masked && is(f.char(at+1), "[{%\x80"+alphanumeric) {
		return jsonspan.Span{From: from, To: at}
	}
	f.noAtUntil = end
	return s
}

// enough is the number of characters that are a secret, whatever they are, where one is
// expected.
const enough = 40

// mixed matches a capital after a small letter, and changes also matches a letter next to a digit.
var mixed, changes = regexp.MustCompile(`[a-z][A-Z]`), regexp.MustCompile(`[a-z][A-Z0-9]|[A-Z][0-9]|[0-9][A-Za-z]`)

// valueAt returns the characters of the set from b[i] on.
func valueAt(b []byte, i int, set string) []byte { return b[i:skip(b, i, set)] }

// sentence returns where the value v at i is. Punctuation that ends a sentence is not part of it.
func sentence(i int, v []byte) jsonspan.Span {
	return jsonspan.Span{From: i, To: i + len(bytes.TrimRight(v, ".:!?"))}
}

// stretches returns the length of the longest stretch of letters and digits in v, and whether one
// of those looks like a key.
func stretches(v []byte) (longest int, likeKey bool) {
	for part := range bytes.FieldsFuncSeq(v, separates) {
		longest = max(longest, len(part))
		likeKey = likeKey || len(part) >= 8 && changes.Match(part)
	}
	return longest, likeKey
}

func separates(r rune) bool { return !is(byte(r), alphanumeric) }

// isSecretOf reports whether v is a secret after a name. sure says that the name is certain to be
// that of a secret.
func isSecretOf(v []byte, sure bool) bool {
	n, digit := len(v), bytes.ContainsAny(v, decimal)
	if sure {
		return isSecret(v, n >= 6 || mixed.Match(v) || digit && (n >= 4 || bytes.ContainsAny(v, letters+others)))
	}
	longest, _ := stretches(v)
	return isSecret(v, digit && n >= 6 && bytes.ContainsAny(v, letters) || n >= 8 && mixed.Match(v) || longest >= 16)
}

// isSecret reports whether the value v is a secret. looksLikeOne decides for short values.
func isSecret(v []byte, looksLikeOne bool) bool {
	return len(v) >= 3 && len(bytes.Trim(v, ".:!?")) > 0 &&
		(len(v) >= enough || looksLikeOne && len(bytes.Trim(v, "*")) > 0 && !isWord(v))
}

// isWord reports whether v is one of noSecrets.
func isWord(v []byte) bool {
	return len(v) <= 16 && slices.Contains(noSecrets, strings.ToLower(string(bytes.TrimRightFunc(v, separates))))
}
