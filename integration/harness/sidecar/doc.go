// Package sidecar runs the program under test: ./cmd/caddy of the repository, or the binary
// that HERMES_TEST_BINARY names.
//
// The program is built once, in Go's build cache, for all test binaries of a run; under -race
// it has the race detector too. A Process is a running one. Its log is searched at its end:
// a panic or a data race in it fails the test.
//
// A configuration is a Config (Caddy's JSON: Serve, Run), a Caddyfile (ServeCaddyfile,
// RunCaddyfile), or a Recipe, which is one of the documentation.
package sidecar
