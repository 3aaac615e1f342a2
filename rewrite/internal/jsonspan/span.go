// Package jsonspan finds values in JSON by their position, and reports whether
// the JSON is well formed (RFC 8259, and the values that Python adds). It decodes only
// what its caller asks for, so that everything else can leave byte for byte.
//
// Positions are indexes into the bytes that the caller passes. A Span is valid
// for those bytes only. Methods of Span other than Ok may panic on an absent value
// unless they say otherwise. What Reader returns is always in range.
//
// The package holds no state. Only functions that return new bytes allocate, such as
// Quote.
package jsonspan

// Span is a range of bytes; To is exclusive. The zero Span means "absent".
type Span struct{ From, To int }

// ObjectIn returns where the object is that b begins with, after white space.
func ObjectIn(b []byte) Span { return Span{From: SkipSpace(b, 0), To: len(b)} }

// Ok reports whether the span is not empty.
func (s Span) Ok() bool { return s.To > s.From }

// Of returns the bytes of b at s.
func (s Span) Of(b []byte) []byte { return b[s.From:s.To] }

// Inner returns the inside of the JSON string at s: the span without its first and its
// last byte.
func (s Span) Inner() Span { return Span{s.From + 1, s.To - 1} }

// Is reports whether the bytes at s are v.
func (s Span) Is(b []byte, v string) bool { return string(b[s.From:s.To]) == v }

// IsString reports whether the value at s is a JSON string. It returns false for
// an absent value, as IsObject and IsSet do.
func (s Span) IsString(b []byte) bool { return s.Ok() && b[s.From] == '"' && s.To-s.From >= 2 }

// IsObject reports whether the value at s is a JSON object.
func (s Span) IsObject(b []byte) bool { return s.Ok() && b[s.From] == '{' }

// IsSet reports whether there is a value at s and it is not null.
func (s Span) IsSet(b []byte) bool { return s.Ok() && b[s.From] != 'n' }

// IsCut reports whether the value at s may go on after b, the beginning of a document.
func (s Span) IsCut(b []byte) bool {
	return s.To == len(b) && !(s.IsString(b) && SkipString(b, s.From) == s.To)
}

// StringAt returns the JSON string at v, including its quotes, or nil if the value is
// not a string or is empty.
func StringAt(data []byte, v Span) []byte {
	if !v.IsString(data) || v.To-v.From == 2 {
		return nil
	}
	return v.Of(data)
}

// Inside returns the inside of the JSON string raw, or an empty one if raw is not a
// string.
func Inside[T string | []byte](raw T) T {
	if len(raw) < 2 || raw[0] != '"' {
		return raw[:0]
	}
	return raw[1 : len(raw)-1]
}

// SmallInt returns the value of b, a JSON number of at most nine digits and nothing
// else, or -1 if b is anything else.
func SmallInt(b []byte) int64 {
	n := int64(-1)
	for i, d := range b {
		if i == 9 || d < '0' || d > '9' {
			return -1
		}
		n = max(n, 0)*10 + int64(d-'0')
	}
	return n
}
