package redact

import (
	"slices"
	"strings"
	"testing"
)

// of returns n characters that repeat those of s.
func of(s string, n int) string { return strings.Repeat(s, n/len(s)+1)[:n] }

// whereSecretsBegin are, for each rule of what a secret is (contract section 3), values where
// it begins to hold and just before.
var whereSecretsBegin = []string{
	// After a name that is sure.
	"api_key=a1", "api_key=«a1b»", "api_key=123", "api_key=«1234»", "api_key=1-2", "api_key=«1_2»", "api_key=abcde", "api_key=«abcdef»", "api_key=ab", "api_key=«aBc»",
	"api_key=" + of("*", enough-1), "api_key=«" + of("*", enough) + "»", "api_key=required",
	// After one that may mean something else.
	"key: ab12c", "key: «ab12cd»", "key: 1234567", "key: abcdEfg", "key: «abcdEfgh»", "key: " + of("a", 15), "key: «" + of("a", 16) + "»",
	"key: " + of("a-", enough-2) + "b", "key: «" + of("a-", enough-1) + "b»", "key: " + of("*", enough-1),
	// What makes a name sure.
	"accessToken: «banana»", "access-token: «banana»", "access_token: «banana»", "Token: banana", "TOKEN: banana", "MONKEY: banana", "key=«banana»", "key =banana", "key= banana",
	`\"key\": «banana»`, "a provided: «ab12cd»", "tokens: ab12cd", "keys=ab12cd", "key1=ab12cd",
	// A name and its value.
	"api_key=«banana»", "api_key=«u12345»", "api_key=b'«banana»'", "api_key=u'«banana»'", "key > ab12cd", "ab12cd34 key here", "ab12cd34 key", "key => «ab12cd»", "key := «ab12cd»", "key == «ab12cd»", "key=,ab12cd",
	"api_key%3a«abcdef»", "api_key%20=«abcdef»", "(api_key)=«abcdef»", "[api_key]=«abcdef»", "{api_key}=abcdef",
	"('api_key', '«abcdef»')", "('api_key', abcdef)", "(api_key, 'abcdef')", "('api_key', 'abcdef'", "('api_key', 'abcdef']", "('api_key' = '«abcdef»'",
	"Authorization: Bearer «abcdef»", "Authorization: Basic «abcdef»", "Authorization: Token «abcdef»", "Authorization: Digest «abcdef»", "Authorization: ApiKey «abcdef»", "Authorization: Key «abcdef»", "Authorization: Token", "Authorization: Token ",
	// A value in quotes.
	"key='abc def'", "key='«abc123» def'", "password='«abc def»'", "password='required field'", "key='{abc}'", "key='«{abcd}»'", "key: '{abcd}'", "key='{ab d}'",
	"token='«abcdef.»'", "token='abcd.", "token='«abcde».", "key='Bearer «abc123»'", "password='Bearer «abc» def'", "password='abc", "password='abc'", "password='«abcdef»'",
	// Backslashes that escape nothing are characters, each one.
	`«sk-abcdEFGH»\u005c\u0041api_key=«abcdef»`, `token=\\"«abc\\\\d»\\"`, `token=\\"ab\\\\d\\"`, `token=\\"«abc\\u005c\\u005cd»\\"`,
	// After a scheme.
	"Bearer ab", "Bearer «abc»", "Bearer token", "Bearer " + of("*", enough-1), "Bearer «" + of("*", enough) + "»", "Bearer-abc", "Bearer,abc",
	"Bearer:«abc»", "Bearer=«abc»", "Bearer («abc»)", "Bearer {«abc»}", "Bearer %3a«abc»", "Bearer%3D«abc»", "Bearer%22«abc»", "Bearer\\u00e9«abc»",
	"bearer abc", "bearer «a1c»", "bearer aBc", "bearer «aBcd»", "bearer " + of("a", 15), "bearer «" + of("a", 16) + "»", "bearer «a_bc»", "bearer a-bc",
	"basic abcd", "basic «a1c»", "basic «aBcd»", "basic a_bc", "basic " + of("a", 15), "basic «" + of("a", 16) + "»", "basic " + of("a-", enough-2) + "b", "basic «" + of("a-", enough-1) + "b»",
	// A key after its prefix.
	"sk-ab", "«sk-abc»", "xsk-" + of("a", 19), "x«sk-" + of("a", 20) + "»", "xsk-abcdEfg", "x«sk-abcdEfgh»", "x«sk-abcdefg1»", "xsk-12345678", "xsk-1234567-a",
	"hf_" + of("a", 11), "«hf_" + of("a", 12) + "»", "hf_abcdEfg", "«hf_abcdEfgh»", "hf_12345678", "«hf_1234567a»", "hf_ABCDefgh", "hf_abcd-efgh",
	"xsk-" + of("a-", 2*enough-1), "x«sk-" + of("a-", 2*enough-1) + "a»",
	`\\n«sk-abc»`, `\\r«sk-abc»`, `\\t«sk-abc»`, `\\qsk-abc`, `n\\bsk-abc`, `nnsk-abc`, "SK-abcdef", "«sk-abc».", "«sk-abc»:", "«sk-abc»!", "«sk-abc»?",
	// A password in an address.
	"a:«b»@h", "[redacted]:«b»@h", `jos\u00e9:«b»@h`, "é:«b»@h", "(:b@h", " :b@h", ":b@h", "a:@h", "a:b@", "a:b@-", "a:b@ h", "a:«b»@[::1]", "a:«b»@{host}", "a:«b»@%h", `a:«b»@\u00e9`, "a:«b»@é",
	"a:" + of("*", enough-1) + "@h", "a:«" + of("*", enough) + "»@h", "a:80/x@h", "a:/x@h", "a:«8b/x»@h", "a:«b@c»@h", "a:«b/c»@h@i", "a:«b»@h/c@d",
	"a:<b@h", "a:b>c@h", "a:[b@h", "a:b]@h", "a:b,c@h", "a:b c@h", "a:b'c@h", "a:«#b»@h", `error:boom\\nme@x`, "mailto:a@h", "MAILTO:a@h", "mail:«a»@h",
}

// A key of each format begins with its prefix, and has as many characters as it says.
func TestEachPrefixOfAKey(t *testing.T) {
	for _, f := range slices.Concat(prefixes[:]...) {
		key := of("aB3dE6gH9", 12)
		for _, n := range []int{f.least - 1, f.least, 12} {
			in, want := "("+f.word+key[:n]+")", "("+mark+")"
			if n < f.least || f.wordy && n < 8 { // words begin like this
				want = in
			}
			if got := string(Text([]byte(in))); got != want {
				t.Errorf("%s becomes %s, want %s", in, got, want)
			}
		}
	}
}
