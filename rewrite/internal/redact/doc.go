// Package redact takes secrets out of what upstream says of a failure (contract section
// 3): keys with a known prefix, what follows a scheme such as Bearer, the password of a
// URL, and the value behind the name of a secret.
//
// It reads the inside of JSON strings as it stands, through escapes and through those of
// JSON within JSON, and replaces secrets by position: all other bytes stay. Redacting
// twice is redacting once.
//
// Prefixes are those of gitleaks' rules (MIT) and of providers of models. The library
// itself is not used: it has 74 modules, its 221 regular expressions take 20 ms and
// 2.4 MiB to compile and 2 ms for each message, they look for keys of the exact length in
// source code, and they do not see through the escapes of JSON.
//
// The package holds no state. MayHold looks at each byte once; most messages end there.
// The rest takes time linear in the length of the text.
package redact
