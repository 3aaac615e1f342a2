// Package resume has the tests of answers that outlive their connections: hermes_resume in
// the built binary, with real sockets, in every protocol, across reloads and at the end of
// the process.
package resume
