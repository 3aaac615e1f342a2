// Package sse reads, splices and forwards a stream of server-sent events (WHATWG HTML,
// section 9.2.6) without decoding it: a Scanner cuts bytes into units, a Frame finds the
// fields of a unit by position, a Splice replaces parts of it, and a Writer collects what
// leaves. What is not changed leaves byte for byte. A proxy goes through them in this
// order: see the example. A client needs Scanner and Frame only.
//
// The state that lasts from read to read is that of Scanner and Writer, and
// the unit under way if a read ends within one, which Scanner.MaxFrame bounds. Streams may
// share a Frame and a Splice, which keep only their room between frames.
// No two goroutines may use a value of these types at once.
package sse
