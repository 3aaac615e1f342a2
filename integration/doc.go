// Package integration tests the sidecar as its users run it: the built binary,
// a configuration, and real sockets. It imports nothing of the plugin. A fake
// upstream (upstream_test.go) writes recorded answers byte by byte, clients of
// HTTP/1.1, HTTP/2 and HTTP/3 (clients_test.go) read what the sidecar makes of
// them, and a strict decoder (sse_test.go) says what that is.
//
// The page of the demo is driven in a headless Chromium (browser_test.go); its
// tests are skipped where there is none, unless HERMES_CHROMIUM is "required".
//
// Real clients (realclients_test.go), started as the drivers in clients/, are shown
// the recordings; docs/clients.md is written from what they see. Those of Go run
// always; HERMES_CLIENTS, as "install", also installs and runs those of Node and
// Python, and as "required" fails for want of any.
//
// A real Open WebUI is driven in the same browser (openwebui_test.go) where
// HERMES_OPENWEBUI names one, or is "install"; see docs/open-webui.md.
//
// TestNoRaces builds the binary with the race detector as well, and has all that
// can happen to streams happen at once; HERMES_RACE_SEED repeats its requests. It is
// skipped where there is no C compiler, unless HERMES_RACE is "required".
//
// What it costs is measured by the command in bench/.
//
// What tests start ends with them (child/) and listens on an address of its own
// (freeport/). No test depends on how fast the machine is (pace_test.go).
//
// TestMain builds ./cmd/caddy of the repository; under -race the binary has the
// race detector too, and what that finds fails the test. -short leaves out the
// build that xcaddy would make and most of the cuts. HERMES_TEST_BINARY names a
// binary to test instead of a fresh one.
package integration
