package redact

import (
	"slices"
	"strings"
)

// prefix is a prefix of keys.
type prefix struct {
	word  string
	least int  // how many characters follow it at least
	wordy bool // words also begin with it: what follows must look like a key
}

// prefixes has the prefixes of keys, in the case in which they are written, by their first
// character.
var prefixes = func() (by [256][]prefix) {
	add := func(least int, wordy bool, words string) {
		for word := range strings.FieldsSeq(words) {
			by[word[0]] = append(by[word[0]], prefix{word, least, wordy})
		}
	}
	add(3, false, "sk-")                                                                                       // OpenAI, Anthropic, OpenRouter
	add(4, false, "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-") // Stripe, Slack
	add(6, false, `ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glsa_ GOCSPX- gsk_ r8_ nvapi- tvly- whsec_ ya29.
		shpat_ shpca_ shppa_ shpss_ sntrys_ sntryu_ dop_v1_ doo_v1_ dor_v1_ lin_api_`)
	add(6, true, "hf_ xapp- xai- pplx- pypi- npm_")
	add(7, false, "AIz")
	add(8, true, `AKIA ASIA ABIA ACCA AGE-SECRET-KEY- HRKU- PMAK- SG. api_org_ dt0c01. glagent- glc_ glcbt- gldt- glffct- glft- glimt-
		gloas- glptt- glrt- glsoat- ntn_ pnu_ pscale_oauth_ pscale_pw_ pscale_tkn_ pul- rdme_ rubygems_ sgp_ shippo_live_ sq0atp- xkeysib-`)
	add(10, false, "eyJ") // a JSON Web Token
	add(10, true, "hvs. hvb.")
	return by
}()

// secretNames are the words at the end of the name of a secret. The first onlySecret of them have
// no other meaning.
var secretNames = strings.Fields(`apikey authorization passphrase password passwd pwd secret
	auth cookie credentials credential key provided signature token`)

const onlySecret = 7

// secretName returns the index of the word that ends b and announces a secret, or -1. only says
// that the word has no other meaning.
func secretName(b []byte) (i int, only bool) {
	n := slices.IndexFunc(secretNames, func(word string) bool { return endsWith(b, word) })
	if n < 0 {
		return -1, false
	}
	return len(b) - len(secretNames[n]), n < onlySecret
}

// schemes are the schemes of Authorization headers that a secret follows. The first two also
// announce one without a header.
var schemes = []string{"bearer", "basic", "token", "digest", "apikey", "key"}

// encoded are separators in URLs.
var encoded = []string{"%20", "%3a", "%3d", "%22"}

// noSecrets are words that messages have in the place of a secret.
var noSecrets = strings.Fields(`access apikey auth authentication authorization basic bearer cannot code credentials
	default denied digest disabled empty error exceeded expired failed false forbidden format found header headers
	incorrect invalid key malformed missing none not null optional please provide provided realm redacted rejected
	required revoked scheme scope should string supplied token tokens true type unauthorized undefined unknown value
	wrong`)

// Sets of characters.
const (
	lower        = "abcdefghijklmnopqrstuvwxyz"
	upper        = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	decimal      = "0123456789"
	letters      = lower + upper
	alphanumeric = letters + decimal
	inKey        = alphanumeric + "_-*." // may be in a key with a prefix
	others       = "_*.~+/=%:!?@#$^"
	inValue      = alphanumeric + "-" + others // may be in the value of a name or a scheme
	quotes       = "\"'`"
	separators   = ":="
	noPassword   = " <>[],\\" + quotes // ends a password in an address
)
