// Package splice is the other end of a resumable stream: an http.RoundTripper between a client
// and a distant site that has hermes_resume. It gives each request for a stream a key. When the
// connection to the site breaks, it comes back, asks for what follows the last event, and splices
// it to what the client has. The client sees one stream.
//
// What it relies on is in docs/resume.md: a site runs a request with a key once, and what it
// sends after an event does not depend on when it is asked.
//
// Invariants:
//   - Without a key, no request is sent twice.
//   - A client gets each byte of the stream once, in order. Only comments come in between.
//   - What is no stream passes untouched.
package splice
