// Package splice is the other end of a resumable stream: an http.RoundTripper between a client and
// a distant site that has hermes_resume. It gives each request for a stream a key. When the
// connection to the site breaks, it makes a new one, asks for what follows the last event, and
// splices that to what the client has. The client sees one stream.
//
// It relies on two guarantees of docs/resume.md: a site runs a request with a key once, and what it
// sends after an event does not depend on when it is asked.
//
// Invariants:
//   - Without a key, no request is sent twice.
//   - A client gets each byte of the stream once, in order. Only comments are in between.
//   - Everything that is not a stream passes untouched.
package splice
