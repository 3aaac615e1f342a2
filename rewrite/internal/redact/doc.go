// Package redact takes secrets out of what upstream says of a failure (contract section
// 3): keys with a known prefix, what follows a scheme such as Bearer, the password of a
// URL, and the value behind the name of a secret.
//
//	redact.go     Text, Value: a text or a JSON value without its secrets
//	findsecret.go where a secret begins and ends
//	secret.go     prefixes, names and words, and what a secret looks like
//
// It reads the inside of JSON strings as it stands, through escapes and through the
// escapes of JSON within JSON. It replaces secrets by position, so that all other bytes
// stay. Redacting twice is the same as redacting once.
//
// The prefixes are those of the rules of gitleaks (MIT) and of model providers. The
// gitleaks library itself does not fit: it has 74 modules, and its 221 regular
// expressions take 20 ms and 2.4 MiB to compile and 2 ms for each message. They look for
// keys of the exact length in source code, and do not see through the escapes of JSON.
//
// The package holds no state and costs a stream nothing. MayHold looks at each byte once;
// most messages end there. The rest takes time linear in the length of the text.
package redact
