// Package redact takes secrets out of what upstream says of a failure (contract section
// 3): keys with a known prefix, what follows a scheme such as Bearer, the password of a
// URL, and the value behind the name of a secret.
//
// It reads the inside of JSON strings as it stands, through escapes and through the
// escapes of JSON within JSON. It replaces secrets by position, so that all other bytes
// stay. Redacting twice is the same as redacting once.
//
// The prefixes are those of the rules of gitleaks (MIT) and of model providers. The
// gitleaks library itself does not fit: it has 74 modules, its 221 regular expressions
// take 20 ms to compile and 2 ms for each message, and they do not see through the escapes
// of JSON.
//
// MayHold looks at each byte once; most messages end there. The rest takes time linear in
// the length of the text.
package redact
