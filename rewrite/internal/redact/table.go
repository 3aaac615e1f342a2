package redact

import (
	"bytes"
	"strings"
)

// pattern is a word that begins a secret or announces one.
type pattern struct {
	kind
	word  string
	least int  // how many characters follow the prefix of a key at least
	wordy bool // words begin with the prefix of a key, too: what follows must look like a key
	only  bool // the name means nothing but a secret
}

type kind uint8

const (
	isKey    kind = iota // the prefix of a key
	isScheme             // a scheme of Authorization headers
	isName               // the end of a name whose value is a secret
)

// patterns are the words by their first character. Keys and Bearer count as they are
// written, and the others in any case. The first that finds a secret counts.
var patterns = func() (by [256][]pattern) {
	add := func(p pattern, words string) {
		for _, p.word = range strings.Fields(words) {
			first := p.word[:1]
			if p.kind == isName || p.word == "bearer" || p.word == "basic" {
				first += strings.ToUpper(first)
			}
			for _, c := range []byte(first) {
				by[c] = append(by[c], p)
			}
		}
	}
	add(pattern{least: 3}, "sk-")                                                                                       // OpenAI, Anthropic, OpenRouter
	add(pattern{least: 4}, "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-") // Stripe, Slack
	add(pattern{least: 6}, `ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glsa_ GOCSPX- gsk_ r8_ nvapi- tvly- whsec_ ya29.
		shpat_ shpca_ shppa_ shpss_ sntrys_ sntryu_ dop_v1_ doo_v1_ dor_v1_ lin_api_`)
	add(pattern{least: 6, wordy: true}, "hf_ xapp- xai- pplx- pypi- npm_")
	add(pattern{least: 7}, "AIz")
	add(pattern{least: 8, wordy: true}, `AKIA ASIA ABIA ACCA AGE-SECRET-KEY- HRKU- PMAK- SG. api_org_ dt0c01. glagent- glc_ glcbt- gldt- glffct- glft- glimt-
		gloas- glptt- glrt- glsoat- ntn_ pnu_ pscale_oauth_ pscale_pw_ pscale_tkn_ pul- rdme_ rubygems_ sgp_ shippo_live_ sq0atp- xkeysib-`)
	add(pattern{least: 10}, "eyJ") // a JSON Web Token
	add(pattern{least: 10, wordy: true}, "hvs. hvb.")
	add(pattern{kind: isScheme}, "Bearer bearer basic")
	add(pattern{kind: isName, only: true}, "apikey authorization passphrase password passwd pwd secret")
	add(pattern{kind: isName}, "auth cookie credentials credential key provided signature token")
	return by
}()

// schemes are the schemes of Authorization headers that a secret follows.
var schemes = [...]string{"bearer", "basic", "token", "digest", "apikey", "key"}

// noSecrets are words that messages have in the place of a secret.
var noSecrets = strings.Fields(`access apikey auth authentication authorization basic bearer cannot code credentials
	default denied digest disabled empty error exceeded expired failed false forbidden format found header headers
	incorrect invalid key malformed missing none not null optional please provide provided realm redacted rejected
	required revoked scheme scope should string supplied token tokens true type unauthorized undefined unknown value
	wrong`)

// The classes of characters.
const (
	isLower = 1 << iota
	isUpper
	isDecimal
	inKey   // may be in a key with a prefix
	inValue // may be in the value of a name or a scheme
	isBlank // white space and control characters
	isQuote
	letter = isLower | isUpper
)

// classes are the classes of each character.
var classes = func() (table [256]uint8) {
	for class, chars := range map[uint8]string{
		isLower:   "abcdefghijklmnopqrstuvwxyz",
		isUpper:   "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		isDecimal: "0123456789",
		inKey:     "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-*.",
		inValue:   "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-*.~+/=%:!?@#$^",
		isQuote:   "\"'`",
	} {
		for _, c := range []byte(chars) {
			table[c] |= class
		}
	}
	for c := range ' ' + 1 {
		table[c] = isBlank
	}
	table[0x7f] = isBlank
	return table
}()

// begins reports whether b begins with the word, in letters of any case.
func begins(b []byte, word string) bool {
	return len(b) >= len(word) && strings.EqualFold(string(b[:len(word)]), word)
}

// matches reports whether b begins with the word of p.
func (p *pattern) matches(b []byte) bool {
	if p.kind == isKey || p.word == "Bearer" {
		return bytes.HasPrefix(b, []byte(p.word))
	}
	return begins(b, p.word)
}
