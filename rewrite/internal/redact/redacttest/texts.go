// Package redacttest has texts with secrets and without, for the tests of packages that
// redact.
package redacttest

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed texts.txt
var texts string

// Secrets are messages with secrets, which stand between « and ». NoSecrets are messages that
// stay as they are.
var Secrets, NoSecrets = func() (secrets, others []string) {
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

// Marked returns a text of Secrets, and what becomes of it.
func Marked(text string) (in, want string) {
	return strings.NewReplacer("«", "", "»", "").Replace(text), secret.ReplaceAllString(text, "[redacted]")
}
