// Package upstream is the server behind the sidecar. A Server speaks HTTP/1.1 by hand, so that
// a Script decides on every byte and on how the connection ends.
//
// Replay answers with a recording, cut as a Cutter says. A Router has several scripts, of which
// the request's X-Play header names one.
package upstream
