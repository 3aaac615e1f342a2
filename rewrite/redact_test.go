package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// secretTexts are messages with secrets, which stand between « and ».
var secretTexts = []string{
	// Keys that have a prefix.
	"Incorrect API key provided: «sk-abcdEFGH1234567890». You can find it at https://x.y/z.",
	"«sk-proj-abc_DEF-1234567890»", "'«sk-ant-api03-AAAABBBBCCCC»'", "x«sk-abcdEFGH1234567890»y z"[:0] + "key«sk-abcdEFGH1234567890» is bad",
	"é«sk-test» and «sk-12345», ok", "«sk-pr***abc»", "my_«sk-abcdef»", `\n«sk-abcdef»`,
	"«gsk_abcdefGH1234»", "«AIzaSyA1234567_-abc»", "«hf_abcdefGHIJ1234»", "«hf_abcdefghijklmnop»",
	"«ghp_abcDEF123456» «gho_abcDEF123456» «ghu_abcDEF123456» «ghs_abcDEF123456» «ghr_abcDEF123456»", "«github_pat_11ABCDE_abcdef»",
	"«xoxa-2-abcd», «xoxb-123-456-abc», «xoxp-1-2-3-abc», «xoxr-1-2abc», «xoxs-1-2abc»", "«AKIAIOSFODNN7EXAMPLE» «ASIAIOSFODNN7EXAMPLE»",
	"«r8_abcDEF123456»", "«pplx-abcdef0123456789abcd»", "«glpat-abcDEF123-456_»", "«sk_live_abcDEF1234» «rk_live_abcDEF1234»",
	"«SG.abcDEF1234567890.abcdef», «shpss_abcDEF1234», «rubygems_0123456789abcdef» «ntn_12345678901abcdEFG» «hvb.AAAAAQabcdef123»",
	"«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_DEF»!", "«nvapi-abcDEF123456», «npm_abcDEF1234567890», «ya29.a0AfH6SMBx-abc»",

	// What follows a scheme.
	"Authorization: Bearer «tok12», Bearer «abc»", "bearer «a1b2»", "BEARER «abcdEFGH1234567890»", "bEARER: «tok.en»", `"bearer=«a1b2»"`,
	"authorization: bearer «abcdEFGH1234567890==»", "Bearer\t«abc.def/ghi+jkl~_-==»", `Bearer \"«abc123»\"`, "Bearer <«abc123»>", "Bearer%20«abc123»",
	"Bearer “«abc123»”", "Authorization: Basic «dXNlcjpwYXNz»", "basic «dXNlcjpwYXNzd29yZA==»", `'Authorization': 'BASIC «dXNlcjpwYXNz»'`,
	`Authorization: Token «abcdef»`, "Proxy-Authorization: «abcdefgh»", "b'Bearer «abcdef»'",

	// The user of an address.
	"postgres://hermes:«hunter2»@db:5432/x is down", "redis://:«secret»@localhost", "https://a:«b»@[::1]:80/", "proxy bob:«p@ss:w0rd»@10.0.0.1:3128",
	"https://u:«p#/w»@host", "http://h:8080/x and http://u:«p»@h:8080/a@b",

	// What follows a name.
	"api_key=«abcdef»&x=1", "GET https://h/v1?key=«AbC123»&x=1 failed", "token=«deadbeef»", "x-api-key: «abcdef12»", "X-API-Key: «supersecretvalue»",
	`{\"api_key\": \"«abcdef»\", \"model\": \"gpt\"}`, `{'api_key': '«abcdef»', 'x': 1}`, "apikey: «abcdef»", "apiKey=«abcdef»", "api key: «abc123def»",
	"OPENAI_API_KEY=«abcdef»", "access_token=«abcdef».", "auth_token: «abcdef»", "client_secret=«abcdef»", "password=«hunter22»", "password: «hunter22»",
	"db_password = «p@ss!w0rd»", "password='«correct horse»'", "passwd:«hunter22»", "PWD=«hunter22»;", "key => «abcd1234»", "api_key%3D«abcdef»", "api_key%3d«abcdef»",
	`api_key\u003d«abcdef»`, `(b'x-api-key', b'«abcdef»')`, `[('Authorization', '«abcdef»')]`, `api_key=\"«abcdef»`, `\\\"token\\\": \\\"«abcdef»\\\"`,
	"Set-Cookie: «session=abcdef1234»; Path=/", "key: «0123abcd»", "auth_key = u'«abcdef»'", "signature=«abcdef%2B123»",
}

// noSecretTexts are messages that stay as they are.
var noSecretTexts = []string{
	"", "boom", "sk-", "sk-.", "sk-...", "key=value pairs are missing", "the bearer of bad news", "token=none", "missing bearer authentication", "Missing Bearer authentication in header",
	"hf_hub", "hf_hub_download", "from hf_transfer import x", "task-force one", "a risk-assessment of the task-force", "disk-usage-is-high", "risk-averse people",
	"Error code: 401 - invalid api key", "basic auth", "Basic authentication required", "Basic realm=x", "a basic question", "pplx-7b-online is gone", "pplx-70b-chat",
	"ASIA-PACIFIC", "npm_config_registry", "max_tokens: 4096", "prompt_tokens=1234567", "Unexpected token < in JSON at position 0", "unexpected token: please retry",
	"invalid key: temperature", "KeyError: 'choices'", "keyboard: broken", "the password is missing", "password: required", "Bearer [redacted]", "key=[redacted]",
	"https://user:[redacted]@host", "api_key: '[redacted]'", "mailto:support@openai.com", "git@github.com:org/repo.git", "http://127.0.0.1:8080/v1@2", "at 10:30, x@y.z",
	"token: ***", "password=********", "https://u:***@h", "xoxb", "AKIA", "AIza", "ghp_", "eyJ", "Bearer", "Bearer ", "Basic", "key=", "key:", "token = ", `password=""`, "key", "mailto:",
	"sort key", "Authorization: forbidden", "{'param': 'api_key', 'message': 'x'}", "unsupported: ['api_key', 'temperature']",
	"{'error': {'message': 'no', 'type': 'invalid_request_error', 'param': None, 'code': 'invalid_api_key'}}", "API call failed after 3 retries: HTTP 401: no",
	"Retrying in 2.0s (attempt 1/3)...", "http://localhost:11434/v1: connection refused", `File "/x/y.py", line 3, in <module>`, "monkey: banana", "highs_and_lows_of_it", "task_live_update", `{"x": "y"}`, "'", "::::", "a:b:c", "a@b", "@", "://", "\\", `\\`, `\u00e9`, "%", "%3D",
}

// plain returns a text of secretTexts, and what becomes of it.
func marked(text string) (in, want string) {
	want = text
	for {
		from, to := strings.Index(want, "«"), strings.Index(want, "»")
		if from < 0 {
			return strings.NewReplacer("«", "", "»", "").Replace(text), want
		}
		want = want[:from] + redacted + want[to+len("»"):]
	}
}

func TestSecretsInATextAreRedacted(t *testing.T) {
	for _, text := range secretTexts {
		in, want := marked(text)
		if got := string(redactText([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
	for _, text := range noSecretTexts {
		if got := string(redactText([]byte(text))); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

// Values that are too short for what is looked for before a hyphen and the like.
func TestShortValuesHaveNoSecrets(t *testing.T) {
	for _, in := range []string{"", "-", "-5", ":", "=", "k-", "y:", ",", "%", "@", "b", "B", "_", `\`, `\u00`, "A", `""`, `"-"`, `":"`, `"y":1`, `"`, `"\`} {
		if got := string(redact([]byte(in))); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

// escaped returns a text as a JSON string may have it, with some of its characters as
// escapes, and what is not ASCII.
func escaped(text string, r *rand.Rand) string {
	var b strings.Builder
	for i, c := range text {
		switch {
		case c == utf8.RuneError && text[i] != 0xef:
			b.WriteByte(text[i])
		case c < 0x10000 && r.IntN(6) == 0:
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
		case c == '/' && r.IntN(2) == 0:
			b.WriteString(`\/`)
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Of a JSON value, however it is escaped, the secrets go and all other bytes stay.
func TestSecretsAreFoundUnderAnyEscape(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, text := range append(secretTexts, noSecretTexts...) {
		if strings.Contains(text, `\`) || strings.Contains(text, redacted) {
			continue // is escaped already, or must not be
		}
		for range 200 {
			in, want, rest := "", "", text
			for rest != "" {
				part, more, ok := strings.Cut(rest, "«")
				e := escaped(part, r)
				in, want = in+e, want+e
				if rest = more; ok {
					part, rest, _ = strings.Cut(rest, "»")
					in, want = in+escaped(part, r), want+redacted
				}
			}
			const frame = "{\"code\":\"a\\\\u0061\" , \"message\":\"\u0085\\u0085%s\",\"x\":[1,\"\x9b\"]}"
			in, want = fmt.Sprintf(frame, in), fmt.Sprintf(frame, want)
			if got := string(redact([]byte(in))); got != want {
				t.Fatalf("%s becomes %s, want %s", in, got, want)
			}
			if twice := string(redact([]byte(want))); twice != want {
				t.Fatalf("%s becomes %s", want, twice)
			}
		}
	}
}

// TestMembersThatOwnSecrets: the name of a member says that its value is a secret.
func TestMembersThatOwnSecrets(t *testing.T) {
	for in, want := range map[string]string{
		`{"api_key":"abcdef"}`:                                 `{"api_key":"[redacted]"}`,
		`{"x-api-key" : "abc def1"}`:                           `{"x-api-key" : "abc def1"}`,
		`{"apiKey":"ab{cdef"}`:                                 `{"apiKey":"[redacted]"}`,
		`{"a":{"password":"correct horse battery"}}`:           `{"a":{"password":"[redacted]"}}`,
		`{"Authorization":"Bearer abc123","x":"abc123"}`:       `{"Authorization":"Bearer [redacted]","x":"abc123"}`,
		`{"Authorization":"abcdef"}`:                           `{"Authorization":"[redacted]"}`,
		`{"tok\u0065n":["abcdef","ghijkl"],"n":"abcdef"}`:      `{"tok\u0065n":["[redacted]","[redacted]"],"n":"abcdef"}`,
		`{"token":123456789,"key":null,"secret":{"type":"x"}}`: `{"token":123456789,"key":null,"secret":{"type":"x"}}`,
		`{"param":"api_key","code":"invalid_request"}`:         `{"param":"api_key","code":"invalid_request"}`,
		`["api_key","abcdef"]`:                                 `["api_key","abcdef"]`,
		`{"message":"Missing Bearer","code":"abc123def"}`:      `{"message":"Missing Bearer","code":"abc123def"}`,
		`{"message":"no key:","token_type":"abc123def"}`:       `{"message":"no key:","token_type":"abc123def"}`,
		`{"pattern_key":"recursive delete","pattern_keys":[]}`: `{"pattern_key":"recursive delete","pattern_keys":[]}`,
		`{"token":"required","key":"","secret":"[redacted]"}`:  `{"token":"required","key":"","secret":"[redacted]"}`,
		`{"sk-abcdef123":"sk-abcdef123"}`:                      `{"[redacted]":"[redacted]"}`,
		`{"message":"sk-abcdef`:                                `{"message":"[redacted]`,
	} {
		if got := string(redact([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// FuzzRedaction: what is left of a text is a part of it, byte for byte, redacting
// twice is redacting once, and JSON stays JSON. A key that is planted in it goes.
func FuzzRedaction(f *testing.F) {
	for i, text := range append(secretTexts, noSecretTexts...) {
		in, _ := marked(text)
		f.Add(in, "a "+in, uint16(i))
	}
	planted := [...]string{
		"sk-abcdEFGH1234567890", "gsk_abcdEFGH1234567890", "AIzaSyAabcdEFGH1234567890", "hf_abcdEFGH1234567890", "ghp_abcdEFGH1234567890",
		"github_pat_abcdEFGH1234567890", "xoxb-abcdEFGH1234567890", "AKIAIOSFODNN7EXAMPLE", "r8_abcdEFGH1234567890", "pplx-abcdEFGH1234567890",
		"glpat-abcdEFGH1234567890", "sk_live_abcdEFGH1234567890", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "Bearer abcdEFGH1234567890",
		"basic abcdEFGH1234567890", "://u:abcdEFGH1234567890@host", "api_key=abcdEFGH1234567890", `"token": "abcdEFGH1234567890"`,
	}
	f.Fuzz(func(t *testing.T, before, behind string, n uint16) {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		secret := planted[int(n)%len(planted)]
		if strings.ContainsAny(secret, " =:") { // the name would be part of another word, or secret
			before += " "
		}
		if halfEscape.MatchString(before) { // the secret's beginning would be its other half
			t.Skip()
		}
		text := escaped(before, r) + escaped(secret, r) + escaped(" "+behind, r)
		in := `{"error":{"message":"` + text + `","param":"` + escaped(behind, r) + `"}}`
		if !json.Valid([]byte(in)) { // a control character
			t.Skip()
		}
		out := redact([]byte(in))
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q, which is no JSON", in, out)
		}
		checkRest(t, in, string(out))
		if again := redact(out); string(again) != string(out) {
			t.Fatalf("%q becomes %q, and %q the second time", in, out, again)
		}
		core := strings.TrimSuffix(strings.Trim(secret[strings.LastIndexAny(secret, " =:")+1:], `"`), "@host")
		if said := unquote(jsonspan.MemberOf(out, jsonspan.MemberOf(out, jsonspan.Span{From: 0, To: len(out)}, "error"), "message").Of(out)); strings.Contains(said, core) && !strings.Contains(behind, core[:4]) && !strings.Contains(before, core[:4]) {
			t.Fatalf("%q becomes %q", in, out)
		}
	})
}

// halfEscape matches a text that ends within an escape of JSON, which JSON in JSON has.
var halfEscape = regexp.MustCompile(`\\(u[0-9A-Fa-f]{0,3})?$`)

// checkRest checks that out is in, but for what stands in it instead of secrets.
func checkRest(t *testing.T, in, out string) {
	t.Helper()
	parts := strings.Split(strings.ReplaceAll(out, starred, redacted), redacted)
	if !strings.HasPrefix(in, parts[0]) || !strings.HasSuffix(in, parts[len(parts)-1]) {
		t.Fatalf("%q becomes %q", in, out)
	}
	for _, part := range parts {
		i := strings.Index(in, part)
		if i < 0 {
			t.Fatalf("%q is not in %q", part, in)
		}
		in = in[i+len(part):]
	}
}
