package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// of returns n characters that repeat those of s.
func of(s string, n int) string { return strings.Repeat(s, n/len(s)+1)[:n] }

// Each rule of what a secret is (contract section 3), at the values where it begins
// to hold and just before.
func TestWhereASecretBegins(t *testing.T) {
	texts := []string{
		// Behind a name that is sure.
		"api_key=a1", "api_key=«a1b»", "api_key=123", "api_key=«1234»", "api_key=1-2", "api_key=«1_2»", "api_key=abcde", "api_key=«abcdef»", "api_key=ab", "api_key=«aBc»",
		"api_key=" + of("*", enough-1), "api_key=«" + of("*", enough) + "»", "api_key=required",
		// Behind one that may mean something else.
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
		// Behind a scheme.
		"Bearer ab", "Bearer «abc»", "Bearer token", "Bearer " + of("*", enough-1), "Bearer «" + of("*", enough) + "»", "Bearer-abc", "Bearer,abc",
		"Bearer:«abc»", "Bearer=«abc»", "Bearer («abc»)", "Bearer {«abc»}", "Bearer %3a«abc»", "Bearer%3D«abc»", "Bearer%22«abc»", "Bearer\\u00e9«abc»",
		"bearer abc", "bearer «a1c»", "bearer aBc", "bearer «aBcd»", "bearer " + of("a", 15), "bearer «" + of("a", 16) + "»", "bearer «a_bc»", "bearer a-bc",
		"basic abcd", "basic «a1c»", "basic «aBcd»", "basic a_bc", "basic " + of("a", 15), "basic «" + of("a", 16) + "»", "basic " + of("a-", enough-2) + "b", "basic «" + of("a-", enough-1) + "b»",
		// A key behind its prefix.
		"sk-ab", "«sk-abc»", "xsk-" + of("a", 19), "x«sk-" + of("a", 20) + "»", "xsk-abcdEfg", "x«sk-abcdEfgh»", "x«sk-abcdefg1»", "xsk-12345678", "xsk-1234567-a",
		"hf_" + of("a", 11), "«hf_" + of("a", 12) + "»", "hf_abcdEfg", "«hf_abcdEfgh»", "hf_12345678", "«hf_1234567a»", "hf_ABCDefgh", "hf_abcd-efgh",
		`\\n«sk-abc»`, `\\r«sk-abc»`, `\\t«sk-abc»`, `\\qsk-abc`, `n\\bsk-abc`, `nnsk-abc`, "SK-abcdef", "«sk-abc».", "«sk-abc»:", "«sk-abc»!", "«sk-abc»?",
		// A password in an address.
		"a:«b»@h", "[redacted]:«b»@h", `jos\u00e9:«b»@h`, "é:«b»@h", "(:b@h", " :b@h", ":b@h", "a:@h", "a:b@", "a:b@-", "a:b@ h", "a:«b»@[::1]", "a:«b»@{host}", "a:«b»@%h", `a:«b»@\u00e9`, "a:«b»@é",
		"a:" + of("*", enough-1) + "@h", "a:«" + of("*", enough) + "»@h", "a:80/x@h", "a:/x@h", "a:«8b/x»@h", "a:«b@c»@h", "a:«b/c»@h@i", "a:«b»@h/c@d",
		"a:<b@h", "a:b>c@h", "a:[b@h", "a:b]@h", "a:b,c@h", "a:b c@h", "a:b'c@h", `error:boom\\nme@x`, "mailto:a@h", "MAILTO:a@h", "mail:«a»@h",
	}
	for _, text := range texts {
		in, want := marked(text)
		if got := string(redactText([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// A key of each format begins with its prefix, and has as many characters as it says.
func TestEachPrefixOfAKey(t *testing.T) {
	for _, f := range keyFormats {
		key := of("aB3dE6gH9", 12)
		for _, n := range []int{f.least - 1, f.least, 12} {
			in, want := "("+f.prefix+key[:n]+")", "("+redacted+")"
			if n < f.least || f.wordy && n < 8 { // words begin like this
				want = in
			}
			if got := string(redactText([]byte(in))); got != want {
				t.Errorf("%s becomes %s, want %s", in, got, want)
			}
		}
	}
}

// The name of a member says whether its value is a secret.
func TestNamesOfMembersThatOwnSecrets(t *testing.T) {
	for name, owns := range map[string]bool{
		"key": true, "my.key": true, "my key": true, "myKey": true, "MYKEY": false, "mykey": false, "my1key": false, "keys": false, "keyed": false,
		"password": true, "mypassword": true, "passwords": false, "provided": false, "pattern": false, "Pattern_key": false, "a_pattern_key": true, "": false, "k": false,
	} {
		in := fmt.Sprintf(`{"%s":"abcdef"}`, name)
		want := in
		if owns {
			want = fmt.Sprintf(`{"%s":"%s"}`, name, redacted)
		}
		if got := string(redact([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// A text grows by maxRedactedGrowth and no more: what would grow further gets stars, and
// what becomes shorter does not.
func TestWhereRedactionGrowsNoMore(t *testing.T) {
	const short, long = "sk-abc ", "sk-abcdefghijk "
	fit := maxRedactedGrowth / (len(redacted+" ") - len(short))
	for behind, want := range map[string]string{
		"":                  "",
		short:               starred + " ",
		long + short + long: redacted + " " + starred + " " + redacted + " ",
	} {
		got := Redact(strings.Repeat(short, fit) + behind)
		same(t, got, strings.Repeat(redacted+" ", fit)+want, "texts")
	}
}

// A frame of very many secrets takes a few times its length, wherever they stand: an edit
// of each would take more.
func TestManySecretsTakeLittleMemory(t *testing.T) {
	if poolForgets {
		t.Skip("nothing can be said of allocations")
	}
	const secret, n = "sk-abc ", 100_000
	for name, c := range map[string]struct {
		p     Params
		times uint64 // the length of the frame
		in    func(secret string) string
	}{
		"a message that is no JSON": {chat, 7, func(s string) string { return role() + named("error", strings.Repeat(s, n)) }},
		"errors": {chat, 3, func(s string) string {
			return role() + "data: {" + strings.Repeat(`"error":"`+s+`",`, n) + `"x":1}` + "\n\n"
		}},
		"an error of a run": {Params{RunID: "run_1"}, 7, func(s string) string {
			return `data: {"run_id":"run_1","event":"x","error":"` + strings.Repeat(s, n) + "\"}\n\n"
		}},
	} {
		took := func(in string) uint64 {
			s := New(&Options{MaxFrame: 8 << 20}, c.p)
			out := make([]byte, 0, 4*len(in)+1<<20)
			before := allocated()
			out = s.Feed(out, []byte(in), epoch)
			if strings.Contains(string(out), "sk-") {
				t.Errorf("%s: a secret is left", name)
			}
			return allocated() - before
		}
		in := c.in(secret)
		if got, least := took(in), took(c.in("xx-abc ")); got > least+c.times*uint64(len(in)) {
			t.Errorf("%s: %d bytes take %d, without secrets %d", name, len(in), got, least)
		}
	}
}

// An error that is none says nothing: what else the frame has stays, however much it is.
func TestManySecretsBesideAnErrorThatIsNull(t *testing.T) {
	in := role() + `data: {"error": null, "message": "` + strings.Repeat("sk-abcdef ", 2*maxRedactedEdits) + "\"}\n\n" + text("x") + stop()
	same(t, repair(in), in, "bytes")
}

// Of a long name the end tells.
func TestSecretsOfMembersWithLongNames(t *testing.T) {
	for _, n := range []int{1, 24, 31, 32, 33, 55, 56, 57, 63, 64, 65, 200, 5000} {
		in := `{"` + strings.Repeat("x", n) + `_api_key": "hunter2abc"}`
		if out := string(redact([]byte(in))); strings.Contains(out, "hunter2abc") {
			t.Errorf("%d characters before: %s", n, out)
		}
	}
}
