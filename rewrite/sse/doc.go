// Package sse reads, splices and forwards a stream of server-sent events (WHATWG HTML,
// section 9.2.6) without decoding it: bytes become units, units become fields by
// position, and what is not changed leaves byte for byte. It knows nothing of what the
// events say.
//
//   - Scanner cuts bytes into units, wherever the reads end: the same units come of
//     any cut of the same bytes.
//   - Frame is an event with its fields. Of several data lines it knows which byte of
//     the data stands where in the frame.
//   - Splice replaces ranges of a frame's data, or of its bytes, and leaves the framing
//     as it is.
//   - Output remembers what became of the last unit, for a byte order mark and for a
//     CRLF that two reads have torn apart.
//
// A proxy goes through them in this order: see the example. A client needs Scanner and
// Frame only.
//
// The state that lasts from read to read is that of Scanner and Output: 124 bytes, and
// the unit under way where a read ends within one, which Scanner.MaxFrame bounds. Frame
// and Splice may be shared by streams, for they hold nothing between frames but room,
// which Trim bounds to 16 KiB. None of the types may be used by two goroutines at once.
// Once there is room, nothing is allocated.
package sse
