// Package redact takes secrets out of what upstream says of a failure (contract section
// 3): keys with a known prefix, the value after a scheme such as Bearer, the password of a
// URL, and the value after the name of a secret.
//
//	redact.go  texts and JSON values without their secrets
//	text.go    the characters of a text, however often it was escaped
//	table.go   the words that begin or announce a secret
//	find.go    the pass over the characters, from secret to secret
//	value.go   whether a value looks like a secret
//	said.go    the provider's words in the text of an answer
//
// Secrets are replaced by position, so that all other bytes stay. Redacting twice is the
// same as redacting once. The time is linear in the length of the text.
//
// The prefixes are those of the rules of gitleaks (MIT) and of model providers. The
// gitleaks library itself does not fit: it has 74 modules, its 221 regular expressions
// take 20 ms to compile and 2 ms for each message, and they do not see through the escapes
// of JSON.
package redact
