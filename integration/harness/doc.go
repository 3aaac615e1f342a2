// Package harness has what every integration test needs, whatever it tests: processes
// that end with the tests, free ports, files of the repository, and the pace of a machine.
//
// The packages below it each play one part:
//
//	sidecar   builds the program under test, configures it and runs it
//	upstream  answers its requests byte by byte, as a script says
//	hermes    an Agent that does what a test says, step by step, and keeps what it has heard;
//	          recordings of real servers, and frames written like theirs
//	client    sends requests in HTTP/1.1, HTTP/2 and HTTP/3 and reads the answers
//	strict    decodes an answer and accepts nothing that a client could stumble over
//	schema    validates JSON against the schemas of docs/schema
//	metrics   reads metrics as Prometheus does
//	browser   drives a headless Chromium
//
// None of them imports the plugin: strict and hermes are written from the contract, so that
// an error in the sidecar's own reader or writer shows.
//
// No test depends on how fast the machine is. A test waits for an event as long as
// Patience lasts. A duration that it tests is a lower bound (AtLeast); what must not take
// longer than a timeout is tried at other paces (AtAnyPace).
package harness
