package redact

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

//go:embed testdata/texts.txt
var texts string

// secretTexts are messages with secrets, which stand between « and ». otherTexts are messages that
// stay as they are.
var secretTexts, otherTexts = func() (secrets, others []string) {
	others = []string{"", "Bearer ", "token = "}
	for line := range strings.Lines(texts) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "# "):
		case strings.Contains(line, "«"):
			secrets = append(secrets, line)
		default:
			others = append(others, line)
		}
	}
	return secrets, others
}()

var secret = regexp.MustCompile("«[^»]*»")

// marked returns a text of secretTexts, and what becomes of it.
func marked(text string) (in, want string) {
	return strings.NewReplacer("«", "", "»", "").Replace(text), secret.ReplaceAllString(text, "[redacted]")
}

func TestSecretsInATextAreRedacted(t *testing.T) {
	for _, text := range slices.Concat(secretTexts, otherTexts, whereSecretsBegin) {
		in, want := marked(text)
		if got := string(Text([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
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

// A quote may have any number of backslashes before it.
func TestSecretsAreFoundAfterAnyNumberOfBackslashes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 16, 17, 31, 33, 63, 1000, 1 << 20} {
		quote := strings.Repeat(`\`, n) + `"`
		in, want := marked(quote + "token" + quote + ": " + quote + "«abcdef»" + quote)
		if got := string(Text([]byte(in))); got != want {
			t.Errorf("%d backslashes: %.100q", n, got)
		}
		plain := "n" + strings.Repeat(`\`, n) + " token" // no secret: the time is linear
		if got := string(Text([]byte(plain))); got != plain {
			t.Errorf("%d backslashes: %.100q", n, got)
		}
	}
}

// Of a JSON value, however it is escaped, the secrets go and all other bytes stay.
func TestSecretsAreFoundUnderAnyEscape(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, text := range append(secretTexts, otherTexts...) {
		if strings.Contains(text, `\`) || strings.Contains(text, mark) {
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
					in, want = in+escaped(part, r), want+mark
				}
			}
			const frame = "{\"code\":\"a\\\\u0061\" , \"message\":\"\u0085\\u0085%s\",\"x\":[1,\"\x9b\"]}"
			in, want = fmt.Sprintf(frame, in), fmt.Sprintf(frame, want)
			if got := string(Value([]byte(in))); got != want {
				t.Fatalf("%s becomes %s, want %s", in, got, want)
			}
			if twice := string(Value([]byte(want))); twice != want {
				t.Fatalf("%s becomes %s", want, twice)
			}
		}
	}
}

// TestMembersThatOwnSecrets: the name of a member says that its value is a secret.
func TestMembersThatOwnSecrets(t *testing.T) {
	rows := map[string]string{
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
		`{"token":"==\u005c\u0041$,"}`:                         `{"token":"[redacted]"}`,
		`{"message":"sk-abcdef`:                                `{"message":"[redacted]`,
	}
	for _, name := range []string{"key", "my.key", "my key", "myKey", "password", "mypassword", "a_pattern_key"} {
		rows[`{"`+name+`":"abcdef"}`] = `{"` + name + `":"` + mark + `"}`
	}
	for _, name := range []string{"MYKEY", "mykey", "my1key", "keys", "keyed", "passwords", "provided", "pattern", "Pattern_key", "", "k"} {
		rows[`{"`+name+`":"abcdef"}`] = `{"` + name + `":"abcdef"}`
	}
	for in, want := range rows {
		if got := string(Value([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// A text grows by MaxGrowth and no more: what would grow further gets stars, and
// what becomes shorter does not.
func TestWhereRedactionGrowsNoMore(t *testing.T) {
	const short, long = "sk-abc ", "sk-abcdefghijk "
	fit := MaxGrowth / (len(mark+" ") - len(short))
	for after, want := range map[string]string{
		"":                  "",
		short:               stars + " ",
		long + short + long: mark + " " + stars + " " + mark + " ",
	} {
		got := string(Text([]byte(strings.Repeat(short, fit) + after)))
		if want = strings.Repeat(mark+" ", fit) + want; got != want {
			t.Errorf("%d bytes, want %d: %q", len(got), len(want), got)
		}
	}
}

// FuzzRedaction: what is left of a text is a part of it, byte for byte, redacting
// twice is redacting once, and JSON stays JSON. A key that is planted in it goes.
func FuzzRedaction(f *testing.F) {
	for i, text := range append(secretTexts, otherTexts...) {
		in, _ := marked(text)
		f.Add(in, "a "+in, uint16(i))
	}
	planted := [...]string{
		"sk-abcdEFGH1234567890", "gsk_abcdEFGH1234567890", "AIzaSyAabcdEFGH1234567890", "hf_abcdEFGH1234567890", "ghp_abcdEFGH1234567890",
		"github_pat_abcdEFGH1234567890", "xoxb-abcdEFGH1234567890", "AKIAIOSFODNN7EXAMPLE", "r8_abcdEFGH1234567890", "pplx-abcdEFGH1234567890",
		"glpat-abcdEFGH1234567890", "sk_live_abcdEFGH1234567890", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "Bearer abcdEFGH1234567890",
		"basic abcdEFGH1234567890", "://u:abcdEFGH1234567890@host", "api_key=abcdEFGH1234567890", `"token": "abcdEFGH1234567890"`,
	}
	f.Fuzz(func(t *testing.T, before, after string, n uint16) {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		secret := planted[int(n)%len(planted)]
		if strings.ContainsAny(secret, " =:") { // the name would be part of another word, or secret
			before += " "
		}
		if halfEscape.MatchString(before) { // the secret's beginning would be its other half
			t.Skip()
		}
		text := escaped(before, r) + escaped(secret, r) + escaped(" "+after, r)
		in := `{"error":{"message":"` + text + `","param":"` + escaped(after, r) + `"}}`
		if !json.Valid([]byte(in)) { // a control character
			t.Skip()
		}
		out := Value([]byte(in))
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q, which is no JSON", in, out)
		}
		checkRest(t, in, string(out))
		if again := Value(out); string(again) != string(out) {
			t.Fatalf("%q becomes %q, and %q the second time", in, out, again)
		}
		core := strings.TrimSuffix(strings.Trim(secret[strings.LastIndexAny(secret, " =:")+1:], `"`), "@host")
		if said := textOf(jsonspan.MemberOf(out, jsonspan.MemberOf(out, jsonspan.Span{From: 0, To: len(out)}, "error"), "message").Of(out)); strings.Contains(said, core) && !strings.Contains(after, core[:4]) && !strings.Contains(before, core[:4]) {
			t.Fatalf("%q becomes %q", in, out)
		}
	})
}

// halfEscape matches a text that ends within an escape of JSON, which JSON in JSON has.
var halfEscape = regexp.MustCompile(`\\(u[0-9A-Fa-f]{0,3})?$`)

// checkRest checks that out is in, but for what stands in it instead of secrets.
func checkRest(t *testing.T, in, out string) {
	t.Helper()
	parts := strings.Split(strings.ReplaceAll(out, stars, mark), mark)
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

// textOf returns the text of the JSON string raw.
func textOf(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}
