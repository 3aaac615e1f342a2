// Package sse reads, splices and forwards a stream of server-sent events (WHATWG HTML,
// section 9.2.6) without decoding it: bytes become units, units become fields by
// position, and what is not changed leaves byte for byte. It knows nothing of what the
// events say.
//
//   - Scanner cuts bytes into units. The units do not depend on where the reads end.
//   - Frame is an event with its fields. If its data has several lines, it knows where
//     in the frame each byte of the data is.
//   - Splice replaces ranges of a frame's data, or of its bytes, and leaves the framing
//     as it is.
//   - Writer collects what leaves, and remembers what became of the last unit, for a byte
//     order mark and for a CRLF that two reads have torn apart.
//
// A proxy goes through them in this order: see the example. A client needs Scanner and
// Frame only.
//
// The state that lasts from read to read is that of Scanner and Writer: 152 bytes, and
// the unit under way if a read ends within one, which Scanner.MaxFrame bounds. Streams may
// share a Frame and a Splice, which hold nothing between frames but room. Trim bounds that
// to 16 KiB. No two goroutines may use a value of these types at once. Once there is
// room, nothing is allocated.
package sse
