package jsonspan

import (
	"bytes"
	"iter"
)

// Reader goes through a JSON document once, from value to value. Open enters an
// object or an array, and Skip moves over a value:
//
//	r.Open()
//	for name, ok := r.Member(); ok; name, ok = r.Member() {
//		value := r.Skip()
//	}
//
// It checks names and what stands between values, but not the values, because most of a
// history is text that stays as it is. Values that are not JSON, such as the NaN that some servers
// write, then hide no other member.
//
// After an error every method but Closed returns false or the zero Span, and Pos is
// len(Data).
type Reader struct {
	Data  []byte // all of the document
	Pos   int    // where the next value begins, or the end of what has been read
	depth int    // how many objects and arrays are open; an error closes none
	first bool   // the innermost has had no member or element yet

	Deepest int // the greatest depth that has been seen
}

// Open enters the object or the array at Pos.
func (r *Reader) Open() {
	r.Pos++
	r.depth++
	r.Deepest = max(r.Deepest, r.depth)
	r.first = true
}

// At reports whether the value at Pos begins with c.
func (r *Reader) At(c byte) bool { return r.Pos < len(r.Data) && r.Data[r.Pos] == c }

// Member moves to the value of the next member of the open object, and returns
// where its name is, without the quotes. At the end of the object it closes the
// object and returns false.
func (r *Reader) Member() (name Span, ok bool) {
	if !r.next('}') {
		return name, false
	}
	name = r.Skip()
	r.Pos = SkipSpace(r.Data, r.Pos)
	if !r.At(':') || !name.IsString(r.Data) || text(r.Data, name.From) != name.To {
		return Span{}, r.fail()
	}
	r.Pos = SkipSpace(r.Data, r.Pos+1)
	return name.Inner(), true
}

// Element moves to the next value of the open array. At the end of the array it
// closes the array and returns false.
func (r *Reader) Element() bool { return r.next(']') }

// next moves past the comma before the next member or element. At shut, the closing
// bracket, it closes the object or array and returns false.
func (r *Reader) next(shut byte) bool {
	r.Pos = SkipSpace(r.Data, r.Pos)
	switch {
	case r.At(shut):
		r.Pos, r.first = r.Pos+1, false
		r.depth--
		return false
	case !r.first && r.At(','):
		r.Pos = SkipSpace(r.Data, r.Pos+1)
	case !r.first || r.Pos == len(r.Data):
		return r.fail()
	}
	r.first = false
	return true
}

// Skip moves past the value at Pos, and returns where it is. A value that is cut ends with Data.
func (r *Reader) Skip() Span {
	from, depth := r.Pos, 0
	if r.Pos, depth = skip(r.Data, from); r.Pos <= from {
		r.fail()
		return Span{}
	}
	r.Deepest = max(r.Deepest, r.depth+depth)
	return Span{from, r.Pos}
}

// fail records that the JSON is not well formed, so that nothing more is read. It
// returns false.
func (r *Reader) fail() bool {
	r.Pos = len(r.Data)
	return false
}

// Closed reports whether every object and array that was opened has been closed.
func (r *Reader) Closed() bool { return r.depth == 0 }

// AtEnd reports whether the outermost value has been read to its end and only
// white space follows.
func (r *Reader) AtEnd() bool { return r.depth == 0 && SkipSpace(r.Data, r.Pos) == len(r.Data) }

// SkipSpace returns the index of the first byte from i on that is not white space
// in JSON, or len(b).
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// SkipString returns the index after the string that begins at i, or -1 if it does
// not end. It goes from quote to quote, because texts are long.
func SkipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		slashes := 0
		for slashes < n && b[i+n-1-slashes] == '\\' {
			slashes++
		}
		if i += n + 1; slashes%2 == 0 {
			return i
		}
	}
}

// skip returns the index after the value that begins at i, at most i if there is none, or len(b)
// if it is cut, and how deep it is nested. It checks nothing: a literal may be one that JSON does
// not have.
func skip(b []byte, i int) (end, deepest int) {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = SkipString(b, i) - 1; i < 0 {
				return len(b), deepest
			}
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return skipLiteral(b, i), 0
			}
		}
		if depth <= 0 {
			return i + 1 + depth, deepest
		}
	}
	return len(b), deepest
}

// skipLiteral returns the index after the number or literal at i, or i if there is none.
func skipLiteral(b []byte, i int) int {
	for i < len(b) && (b[i] >= '-' && b[i] <= '9' || b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z' || b[i] == '+') {
		i++
	}
	return i
}

// Members returns an iterator over the names, without their quotes, and the values of the members
// of the object at v, in order. It does not check values. It ends where the object is not well
// formed, and at once if v is not an object. If v is only the beginning of an object, a last value
// that ends with v is cut.
func Members(b []byte, v Span) iter.Seq2[Span, Span] {
	return func(yield func(name, value Span) bool) {
		if !v.IsObject(b) {
			return
		}
		r := Reader{Data: b[:v.To], Pos: v.From}
		r.Open()
		for name, ok := r.Member(); ok; name, ok = r.Member() {
			if value := r.Skip(); !value.Ok() || !yield(name, value) {
				return
			}
		}
	}
}

// Elements returns an iterator over the elements of the array at v, as Members does.
func Elements(b []byte, v Span) iter.Seq[Span] {
	return func(yield func(value Span) bool) {
		if !v.Ok() || b[v.From] != '[' {
			return
		}
		r := Reader{Data: b[:v.To], Pos: v.From}
		for r.Open(); r.Element(); {
			if value := r.Skip(); !value.Ok() || !yield(value) {
				return
			}
		}
	}
}

// MemberOf returns the value of the member with the name, which is ASCII, in the object at v, or
// the zero Span if there is none. If there are several, the last one counts, as it does for
// clients. Names may have escapes.
func MemberOf(b []byte, v Span, name string) (found Span) {
	for key, value := range Members(b, v) {
		if Spells(key.Of(b), name) {
			found = value
		}
	}
	return found
}

// MemberIn is MemberOf for the object that b begins with.
func MemberIn(b []byte, name string) Span { return MemberOf(b, ObjectIn(b), name) }
