// Package redacttest has texts with secrets and without, for the tests of packages that
// redact.
package redacttest

import "strings"

// Secrets are messages with secrets, which stand between « and ».
var Secrets = []string{
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
	"https://u:«p#/w»@host", "https://u:«pass*»@host", "http://h:8080/x and http://u:«p»@h:8080/a@b",

	// What follows a name.
	"api_key=«abcdef»&x=1", "GET https://h/v1?key=«AbC123»&x=1 failed", "token=«deadbeef»", "x-api-key: «abcdef12»", "X-API-Key: «supersecretvalue»",
	`{\"api_key\": \"«abcdef»\", \"model\": \"gpt\"}`, `{'api_key': '«abcdef»', 'x': 1}`, "apikey: «abcdef»", "apiKey=«abcdef»", "api key: «abc123def»",
	"OPENAI_API_KEY=«abcdef»", "access_token=«abcdef».", "auth_token: «abcdef»", "client_secret=«abcdef»", "password=«hunter22»", "password: «hunter22»",
	"db_password = «p@ss!w0rd»", "password='«correct horse»'", "password=«hunter2*»", "passwd:«hunter22»", "PWD=«hunter22»;", "key => «abcd1234»", "api_key%3D«abcdef»", "api_key%3d«abcdef»",
	`api_key\u003d«abcdef»`, `(b'x-api-key', b'«abcdef»')`, `('apikey' , '«abcdef»')`, `[('Authorization', '«abcdef»')]`, `api_key=\"«abcdef»`, `\\\"token\\\": \\\"«abcdef»\\\"`,
	"Set-Cookie: «session=abcdef1234»; Path=/", "key: «0123abcd»", "auth_key = u'«abcdef»'", "signature=«abcdef%2B123»",
}

// NoSecrets are messages that stay as they are.
var NoSecrets = []string{
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

// Marked returns a text of Secrets, and what becomes of it.
func Marked(text string) (in, want string) {
	want = text
	for {
		from, to := strings.Index(want, "«"), strings.Index(want, "»")
		if from < 0 {
			return strings.NewReplacer("«", "", "»", "").Replace(text), want
		}
		want = want[:from] + "[redacted]" + want[to+len("»"):]
	}
}
