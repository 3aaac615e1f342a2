// Package jsonspan finds values in JSON by their position, and reports whether
// the JSON is well formed (RFC 8259). It decodes only what its caller asks for,
// so that everything else can leave byte for byte.
//
// Positions are indexes into the bytes that the caller passes. A Span is valid
// for those bytes only. Methods of Span other than Ok may panic on an absent value
// unless they say otherwise. What Reader returns is always in range.
//
// The package holds no state. Only functions that return new bytes allocate, such as
// Quote. gjson checks values, and encodes none.
package jsonspan
