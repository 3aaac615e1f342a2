package redact

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// finder goes through a text, the inside of a JSON string, from secret to secret.
// It reads each byte a few times at most: an attempt that finds nothing is short, or
// the finder remembers how far it went.
type finder struct {
	b            []byte
	i            int  // how far it has read
	before, last byte // the two characters before that
	noKeyUntil   int  // the index up to which nothing looks like a key
	noAtUntil    int  // the index up to which there is no @ behind a password
}

// next returns the next secret. It returns false if there is none.
func (f *finder) next() (secret jsonspan.Span, ok bool) {
	for f.i < len(f.b) {
		at := f.i
		c, next := charAt(f.b, at)
		if classes[c]&begins != 0 {
			if secret = f.secretAt(at, next, c); secret.Ok() {
				f.i, f.before, f.last = secret.To, 'd', ']'
				return secret, true
			}
			if i := wordAt(f.b, at, "mailto:", true); i > 0 {
				c, next = ':', i // the name in it is not a user with a password
			}
		}
		f.i, f.before, f.last = next, f.last, c
	}
	return secret, false
}

// secretAt returns the secret that begins at the index at, or that the prefix, scheme or
// name there announces. c is the character at that index.
func (f *finder) secretAt(at, next int, c byte) jsonspan.Span {
	for k := range keyFormats {
		if classes[c]&beginsKey == 0 {
			break
		}
		if format := &keyFormats[k]; format.prefix[0] == c {
			if i := wordAt(f.b, at, format.prefix, false); i > 0 && f.isKey(i, format) {
				return jsonspan.Span{From: at, To: valueAt(f.b, i, inKey).at.To}
			}
		}
	}
	switch c {
	case ':':
		return f.password(next)
	case 'b', 'B':
		for _, scheme := range [...]string{"Bearer", "bearer", "basic"} {
			if i := wordAt(f.b, at, scheme, scheme != "Bearer"); i > 0 {
				return f.behindScheme(i, scheme)
			}
		}
		return jsonspan.Span{}
	}
	if classes[c]&beginsName == 0 {
		return jsonspan.Span{}
	}
	for k := range secretNames {
		n := &secretNames[k]
		if n.name[0] != folded(c) {
			continue
		}
		if i := wordAt(f.b, at, n.name, true); i > 0 {
			sure := n.only || f.last == '-' || f.last == '_' || classes[c]&isUpper != 0 && classes[f.last]&isLower != 0
			return f.behindName(i, sure, n.only)
		}
	}
	return jsonspan.Span{}
}

// isKey reports whether what follows the prefix of a format, at i, is the rest of a key.
// Words may contain the prefix, as in task-force.
func (f *finder) isKey(i int, format *keyFormat) bool {
	inWord := classes[f.last]&letter != 0 && !(f.before == '\\' && (f.last == 'n' || f.last == 'r' || f.last == 't'))
	if (inWord || format.wordy) && i < f.noKeyUntil {
		return false
	}
	v := valueAt(f.b, i, inKey)
	switch {
	case v.n < format.least || !v.at.Ok():
		return false
	case v.likeKey, v.longest >= 20, !inWord && (!format.wordy || v.longest >= 12):
		return true
	}
	f.noKeyUntil = v.at.To
	return false
}

// behindScheme returns the secret behind the name of a scheme that ends at i.
func (f *finder) behindScheme(i int, scheme string) jsonspan.Span {
	from := i
	for i < len(f.b) {
		c, next := charAt(f.b, i)
		if n := f.encoded(i); n > 0 {
			next = n
		} else if classes[c]&(isBlank|isQuote) == 0 && c < 0x80 && c != ':' && c != '=' && c != '<' && c != '(' && c != '{' {
			break
		}
		i = next
	}
	if i == from {
		return jsonspan.Span{}
	}
	if v := valueAt(f.b, i, inValue); v.isSecretBehind(scheme) {
		return v.at
	}
	return jsonspan.Span{}
}

// encoded returns the index behind the percent-encoded separator at i, or 0 if there is
// none.
func (f *finder) encoded(i int) int {
	if f.char(i) != '%' {
		return 0
	}
	for _, e := range [...]string{"%20", "%3a", "%3d", "%22"} {
		if n := wordAt(f.b, i, e, true); n > 0 {
			return n
		}
	}
	return 0
}

// behindName returns the secret behind a name that ends at i: "name": "…", name=…,
// ('name', '…') and the like. sure and only are as in ownsSecret.
func (f *finder) behindName(i int, sure, only bool) jsonspan.Span {
	quoted, apart := false, false
	for i < len(f.b) {
		c, next := charAt(f.b, i)
		if classes[c]&(isBlank|isQuote) == 0 && c != ']' && c != ')' {
			break
		}
		quoted = quoted || classes[c]&isQuote != 0
		apart = apart || classes[c]&isBlank != 0
		i = next
	}
	i, equals, pair := f.separator(i)
	if i == 0 || pair && !quoted {
		return jsonspan.Span{}
	}
	from := i
	for i < len(f.b) && classes[f.char(i)]&isBlank != 0 {
		_, i = charAt(f.b, i)
	}
	sure = sure || quoted || equals && !apart && i == from
	if c := f.char(i); c == 'b' || c == 'u' { // Python's b'…'
		if _, next := charAt(f.b, i); classes[f.char(next)]&isQuote != 0 {
			i = next
		}
	}
	if classes[f.char(i)]&isQuote != 0 {
		quote, next := charAt(f.b, i)
		if end := f.closing(next, quote); end > 0 {
			if _, behind := charAt(f.b, end); pair && f.char(behind) != ')' { // elements of a list
				return jsonspan.Span{}
			}
			return f.whole(jsonspan.Span{From: next, To: end}, sure, only)
		}
		i = next
	} else if pair {
		return jsonspan.Span{}
	}
	v := valueAt(f.b, f.behindWord(i), inValue)
	if v.isSecretOf(sure) {
		return v.at
	}
	return jsonspan.Span{}
}

// separator returns the index behind the separator between a name and its value, or 0 if
// there is none. equals reports whether there is an equals sign in it, and pair whether
// it is the comma of a pair.
func (f *finder) separator(i int) (next int, equals, pair bool) {
	for i < len(f.b) {
		c, behind := charAt(f.b, i)
		switch n := f.encoded(i); {
		case n > 0:
			behind, equals = n, true
		case c == '=':
			equals = true
		case c == ',' && next == 0:
			return behind, false, true
		case c != ':' && (c != '>' || next == 0):
			return next, equals, false
		}
		i, next = behind, behind
	}
	return next, equals, false
}

// char returns the character at i, 0 at the end.
func (f *finder) char(i int) byte {
	if i >= len(f.b) {
		return 0
	}
	c, _ := charAt(f.b, i)
	return c
}

// closing returns the index of the next quote of that kind from i on, or 0.
func (f *finder) closing(i int, quote byte) int {
	for i < len(f.b) && f.char(i) != quote {
		_, i = charAt(f.b, i)
	}
	if i == len(f.b) {
		return 0
	}
	return i
}

// behindWord returns the index behind the scheme at i, as Authorization headers have it
// before their value, or i if there is none.
func (f *finder) behindWord(i int) int {
	for _, scheme := range schemes {
		n := wordAt(f.b, i, scheme, true)
		if n == 0 || n >= len(f.b) {
			continue
		}
		if c, next := charAt(f.b, n); classes[c]&isBlank != 0 {
			return next
		}
	}
	return i
}

// whole returns the secret in the value at v, which is all of the text between two
// quotes.
func (f *finder) whole(v jsonspan.Span, sure, only bool) jsonspan.Span {
	text := f.b[:v.To]
	in := finder{b: text}
	if from := in.behindWord(v.From); from > v.From {
		v.From, only = from, false
	}
	first := valueAt(text, v.From, inValue)
	rest := first.at.To
	for rest < v.To && classes[text[rest]]&inValue != 0 { // the end of a sentence
		rest++
	}
	blank := false
	for i := rest; i < v.To && !blank; {
		var c byte
		c, i = charAt(text, i)
		blank = classes[c]&isBlank != 0
	}
	switch {
	case string(v.Of(text)) == mark:
		return jsonspan.Span{}
	case rest == v.To && !first.isSecretOf(sure):
		return jsonspan.Span{}
	case rest == v.To, !blank && sure && v.To-v.From >= 6, only && !first.isWord:
		return v
	case first.isSecretOf(false):
		return first.at
	}
	return jsonspan.Span{}
}

// password returns the password in an address such as user:password@host. i is the index
// behind the colon.
func (f *finder) password(i int) jsonspan.Span {
	user := classes[f.last]&inValue != 0 || f.last == ']' || f.last >= 0x80
	if !user || i < f.noAtUntil {
		return jsonspan.Span{}
	}
	from, at, behind := i, 0, 0 // the @, and what follows it
	digits, path := true, false
	for i < len(f.b) {
		c, next := charAt(f.b, i)
		if c == '/' && !path {
			if digits || at > 0 { // there is no password but nothing, or a port
				break
			}
			path = true
		}
		if classes[c]&(isBlank|isQuote) != 0 || c == '<' || c == '>' || c == '[' || c == ']' || c == ',' || c == '\\' {
			break
		}
		digits = digits && classes[c]&isDecimal != 0
		if c == '@' {
			at, behind = i, next
			if path {
				break
			}
		}
		i = next
	}
	if at > from && f.isHost(behind) {
		if v := valueAt(f.b, from, inKey); !v.stars || v.n >= enough {
			return jsonspan.Span{From: from, To: at}
		}
	}
	if at > 0 || !digits {
		f.noAtUntil = i
	}
	return jsonspan.Span{}
}

// isHost reports whether a host's name or address begins at i.
func (f *finder) isHost(i int) bool {
	c := f.char(i)
	return classes[c]&(letter|isDecimal) != 0 || c == '[' || c == '{' || c == '%' || c >= 0x80
}

// ownsSecret reports whether the value of the member with the name is a secret (sure),
// and whether the name means nothing else (only).
func ownsSecret(name []byte) (sure, only bool) {
	var room [64]byte
	text := room[:0]
	for i := 0; i < len(name); {
		if len(text) == len(room) { // the end of a long name decides
			text = room[:copy(room[:], room[len(room)/2:])]
		}
		var c byte
		c, i = charAt(name, i)
		text = append(text, c)
	}
	if wordAt(text, 0, "pattern", true) > 0 { // what approval.request asks about
		return false, false
	}
	for _, n := range secretNames {
		at := len(text) - len(n.name)
		if at < 0 || wordAt(text, at, n.name, true) == 0 || n.name == "provided" {
			continue
		}
		if n.only || at == 0 || classes[text[at-1]]&(letter|isDecimal) == 0 || classes[text[at]]&isUpper != 0 && classes[text[at-1]]&isLower != 0 {
			return true, n.only
		}
	}
	return false, false
}
