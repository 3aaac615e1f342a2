package redact

import (
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// keyFormat is a format of keys with a prefix.
type keyFormat struct {
	prefix string
	least  int  // how many characters follow the prefix at least
	wordy  bool // words begin with the prefix, too: what follows must look like a key
}

var keyFormats = slices.Concat(
	formats(3, false, "sk-"), // OpenAI, Anthropic, OpenRouter
	formats(4, false, "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-"), // Stripe, Slack
	formats(6, false, `ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glsa_ GOCSPX- gsk_ r8_ nvapi- tvly- whsec_ ya29.
		shpat_ shpca_ shppa_ shpss_ sntrys_ sntryu_ dop_v1_ doo_v1_ dor_v1_ lin_api_`),
	formats(6, true, "hf_ xapp- xai- pplx- pypi- npm_"),
	formats(7, false, "AIz"),
	formats(8, true, `AKIA ASIA ABIA ACCA AGE-SECRET-KEY- HRKU- PMAK- SG. api_org_ dt0c01. glagent- glc_ glcbt- gldt- glffct- glft- glimt-
		gloas- glptt- glrt- glsoat- ntn_ pnu_ pscale_oauth_ pscale_pw_ pscale_tkn_ pul- rdme_ rubygems_ sgp_ shippo_live_ sq0atp- xkeysib-`),
	formats(10, false, "eyJ"), // a JSON Web Token
	formats(10, true, "hvs. hvb."),
)

// formats returns formats with the prefixes, none of which begins with another.
func formats(least int, wordy bool, prefixes string) (all []keyFormat) {
	for _, prefix := range strings.Fields(prefixes) {
		all = append(all, keyFormat{prefix, least, wordy})
	}
	return all
}

// secretName is the end of names whose value is a secret.
type secretName struct {
	name string
	only bool // the name means nothing else
}

var secretNames = [...]secretName{
	{"apikey", true}, {"authorization", true}, {"auth", false}, {"cookie", false}, {"credentials", false}, {"credential", false},
	{"key", false}, {"passphrase", true}, {"password", true}, {"passwd", true}, {"provided", false}, {"pwd", true},
	{"secret", true}, {"signature", false}, {"token", false},
}

// schemes are the schemes of Authorization headers that a secret follows.
var schemes = [...]string{"bearer", "basic", "token", "digest", "apikey", "key"}

// isNoSecret reports whether the text is a word that messages have in the place of a
// secret.
func isNoSecret(text []byte) bool {
	switch string(text) {
	case "access", "apikey", "auth", "authentication", "authorization", "basic", "bearer", "cannot", "code", "credentials",
		"default", "denied", "digest", "disabled", "empty", "error", "exceeded", "expired", "failed", "false", "forbidden", "format",
		"found", "header", "headers", "incorrect", "invalid", "key", "malformed", "missing", "none", "not", "null", "optional",
		"please", "provide", "provided", "realm", "redacted", "rejected", "required", "revoked", "scheme", "scope", "should",
		"string", "supplied", "token", "tokens", "true", "type", "unauthorized", "undefined", "unknown", "value", "wrong":
		return true
	}
	return false
}

// The classes of characters.
const (
	isLower = 1 << iota
	isUpper
	isDecimal
	inKey   // may be in a key with a prefix
	inValue // may be in what follows a name or a scheme
	isBlank // white space and control characters
	isQuote
	begins     // begins a secret, or what announces one
	beginsKey  // begins the prefix of a key
	beginsName // begins the name of a secret
)

var (
	classes                     = classesOf()
	hints, prefixEnds, nameEnds = hintsOf() // see MayHold
)

// endings is a set of hashes of the last three characters of words, in letters of either
// case, as bits.
type endings [64]uint64

// ending returns where the bit of the last three characters of b is.
func ending(b []byte) (word, bit uint) {
	n := len(b)
	h := uint(b[n-1]|0x20) + 37*uint(b[n-2]|0x20) + 101*uint(b[n-3]|0x20)
	return h / 64 % 64, h % 64
}

// fit reports whether b may end with one of the words. It errs only by returning true.
func (e *endings) fit(b []byte) bool {
	if len(b) < 3 {
		return false
	}
	word, bit := ending(b)
	return e[word]>>bit&1 != 0
}

// hintsOf returns the characters at which MayHold looks closer, and the endings of the
// prefixes of keys and of the names of secrets.
func hintsOf() (at [256]bool, prefixes, names endings) {
	for _, c := range []byte("\\:=%@,bB") {
		at[c] = true
	}
	for _, f := range keyFormats {
		at[f.prefix[len(f.prefix)-1]] = true
		word, bit := ending([]byte(f.prefix))
		prefixes[word] |= 1 << bit
	}
	for _, n := range secretNames {
		word, bit := ending([]byte(n.name))
		names[word] |= 1 << bit
	}
	return at, prefixes, names
}

// classesOf returns the classes of each character.
func classesOf() (table [256]uint16) {
	for c := range 256 {
		b := byte(c)
		switch {
		case b >= 'a' && b <= 'z':
			table[c] = isLower | inKey | inValue
		case b >= 'A' && b <= 'Z':
			table[c] = isUpper | inKey | inValue
		case jsonspan.IsDigit(b):
			table[c] = isDecimal | inKey | inValue
		case b <= ' ' || b == 0x7f:
			table[c] = isBlank
		case b == '"' || b == '\'' || b == '`':
			table[c] = isQuote
		}
	}
	set := func(class uint16, chars string) {
		for _, c := range []byte(chars) {
			table[c] |= class
		}
	}
	set(inKey, "_-*.")
	set(inValue, "_-*.~+/=%:!?@#$^")
	set(begins, ":bBmM")
	for _, f := range keyFormats {
		set(begins|beginsKey, f.prefix[:1])
	}
	for _, n := range secretNames {
		set(begins|beginsName, n.name[:1]+string(n.name[0]-'a'+'A'))
	}
	return table
}

const letter = isLower | isUpper

// folded returns an ASCII letter in lower case, and any other character as it is.
func folded(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// charAt returns the character at i of the inside of a JSON string, and the index
// behind it. A character that is not ASCII is 0x80 or more. charAt reads escapes however
// often the text was escaped, because many errors contain the JSON of another.
func charAt(b []byte, i int) (c byte, next int) {
	if b[i] != '\\' {
		return b[i], i + 1
	}
	r, next := jsonspan.NextRune(b, i)
	if r == '\\' {
		if c, behind := escapedAgain(b, next); behind > 0 {
			return c, behind
		}
	}
	if r >= 0x80 {
		return 0x80, next
	}
	return byte(r), next
}

// escapedAgain returns the character that an escaped backslash before i escapes, and
// the index behind it. The index is 0 if that is no character that matters here.
func escapedAgain(b []byte, i int) (c byte, next int) {
	for range 8 { // nobody escapes more often
		if i >= len(b) {
			return 0, 0
		}
		switch b[i] {
		case '/', '\'':
			return b[i], i + 1
		case 'u':
			if r, ok := jsonspan.Hex4(b, i+1); ok {
				return byte(min(r, 0x80)), i + 5
			}
			return 0, 0
		case '\\':
			r, behind := jsonspan.NextRune(b, i)
			if r == '"' || r == '/' {
				return byte(r), behind
			}
			if r != '\\' {
				return 0, 0
			}
			i = behind
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// wordAt returns the index behind the word at i, or 0 if that is not there. If fold is
// true, letters of either case count; word is then in lower case.
func wordAt(b []byte, i int, word string, fold bool) int {
	for k := range len(word) {
		if i >= len(b) {
			return 0
		}
		c, next := charAt(b, i)
		if fold {
			c = folded(c)
		}
		if c != word[k] {
			return 0
		}
		i = next
	}
	return i
}

// enough is the number of characters that are a secret, whatever they are, where one is
// expected.
const enough = 40

// value is what may be a secret.
type value struct {
	at      jsonspan.Span
	n       int    // the number of characters
	kinds   uint16 // which of isLower, isUpper and isDecimal they have
	mixed   bool   // a capital follows a small letter
	other   bool   // one is neither a letter, nor a digit, nor a hyphen
	stars   bool   // all are stars
	isWord  bool   // see isNoSecret
	longest int    // the length of the longest stretch of letters and digits
	likeKey bool   // one of those stretches looks like a key
}

// valueAt reads the characters of the class from i on. Punctuation that ends a sentence is
// not part of the value.
func valueAt(b []byte, i int, class uint16) (v value) {
	v = value{at: jsonspan.Span{From: i, To: i}, stars: true}
	end, last := i, byte(0)
	var part value // the stretch that is read
	var word [16]byte
	for i < len(b) {
		c, next := charAt(b, i)
		if classes[c]&class == 0 {
			break
		}
		i = next
		if v.n < len(word) {
			word[v.n] = folded(c)
		}
		v.n++
		v.add(c, last)
		if classes[c]&(letter|isDecimal) == 0 {
			part = value{}
		} else {
			part.n++
			part.add(c, last)
			v.longest = max(v.longest, part.n)
			v.likeKey = v.likeKey || part.n >= 8 && (part.mixed || part.kinds&isDecimal != 0 && part.kinds&letter != 0)
		}
		if last = c; c != '.' && c != ':' && c != '!' && c != '?' {
			end = i
		}
	}
	v.at.To = end
	if v.n <= len(word) {
		text := word[:v.n]
		for len(text) > 0 && classes[text[len(text)-1]]&letter == 0 {
			text = text[:len(text)-1]
		}
		v.isWord = v.kinds&isDecimal == 0 && isNoSecret(text)
	}
	return v
}

// add records that the character c follows last in the value.
func (v *value) add(c, last byte) {
	kind := classes[c]
	v.kinds |= kind & (letter | isDecimal)
	v.mixed = v.mixed || kind&isUpper != 0 && classes[last]&isLower != 0
	v.other = v.other || kind&(letter|isDecimal) == 0 && c != '-'
	v.stars = v.stars && c == '*'
}

// isSecretOf reports whether the value is a secret behind a name. sure says that the name
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

// isSecretBehind reports whether the value is a secret behind the scheme.
func (v *value) isSecretBehind(scheme string) bool {
	return v.isSecret(scheme == "Bearer" || v.kinds&isDecimal != 0 || v.mixed && v.n >= 4 || v.longest >= 16 || v.other && scheme != "basic")
}

// isSecret reports whether the value is a secret. looksLikeOne decides about those that
// are short.
func (v *value) isSecret(looksLikeOne bool) bool {
	possible := v.at.Ok() && v.n >= 3 && !v.isWord && !(v.stars && v.n < enough)
	return possible && (looksLikeOne || v.n >= enough)
}
