package rewrite

import "regexp"

// secret matches what must not leave in upstream's messages: API keys that
// begin with sk-, and bearer tokens (contract section 3). It is applied to
// JSON: it matches no quote and no backslash.
var secret = regexp.MustCompile(`\bsk-[A-Za-z0-9_*.\-]{6,}|(?i:\bbearer)[ :=]+[A-Za-z0-9_*.~+/=\-]{6,}`)

const redacted = "[redacted]"

// redactIn adds the edits that take secrets out of the value at v.
func (s *Stream) redactIn(v span) {
	if !v.ok() {
		return
	}
	for _, m := range secret.FindAllIndex(v.of(s.f.data), -1) {
		s.edit(v.from+m[0], v.from+m[1], []byte(redacted))
	}
}

// redact returns b without secrets.
func redact(b []byte) []byte {
	return secret.ReplaceAllLiteral(b, []byte(redacted))
}
