package jsonspan

import "bytes"

// Reader goes through a JSON document once, from value to value. Open enters an
// object or an array, Value and Skip move over a value:
//
//	for r.Open(); ; {
//		name, ok := r.Member()
//		if !ok {
//			break
//		}
//		value := r.Value()
//	}
//
// It checks names, what stands between values, and what Value returns. If no value
// has been skipped and AtEnd returns true, all of the document is well formed.
//
// Skip checks nothing, because most of a history is text that stays as it is. Values that
// are not JSON, such as the NaN that some servers write, then hide no other member.
//
// After an error every method but Closed returns false or the zero Span, and Pos is
// len(Data).
type Reader struct {
	Data  []byte // all of the document
	Pos   int    // where the next value begins, or the end of what has been read
	depth int    // how many objects and arrays are open; an error closes none
	first bool   // the innermost has had no member or element yet
}

// Open enters the object or the array at Pos.
func (r *Reader) Open() {
	r.Pos++
	r.depth++
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
	name, value := keyAt(r.Data, r.Pos)
	if value < 0 {
		return name, r.fail()
	}
	r.Pos = value
	return name, true
}

// Name returns what the name at the Span means. A name with escapes is a copy.
func (r *Reader) Name(name Span) []byte {
	b := name.Of(r.Data)
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	return AppendText(nil, b)
}

// Element moves to the next value of the open array. At the end of the array it
// closes the array and returns false.
func (r *Reader) Element() bool { return r.next(']') }

// next moves past the comma before the next member or element. At shut, the closing
// bracket, it closes the object or array and returns false.
func (r *Reader) next(shut byte) bool {
	b := r.Data
	i := SkipSpace(b, r.Pos)
	if i == len(b) {
		return r.fail()
	}
	switch c := b[i]; {
	case c == ',' && !r.first:
		i = SkipSpace(b, i+1)
	case c == shut:
		r.Pos, r.first = i+1, false
		r.depth--
		return false
	case !r.first:
		return r.fail()
	}
	r.Pos, r.first = i, false
	return true
}

// Value checks the value at Pos, moves past it, and returns where it is.
func (r *Reader) Value() Span {
	from, to := r.Pos, -1
	switch {
	case r.At('"'):
		to = stringEnd(r.Data, from)
	case from < len(r.Data):
		to = valueEnd(r.Data, from, r.depth)
	}
	if to < 0 {
		r.fail()
		return Span{}
	}
	r.Pos = to
	return Span{from, to}
}

// Skip moves past the value at Pos without checking it, and returns where it is.
func (r *Reader) Skip() Span {
	b, from, to := r.Data, r.Pos, r.Pos
	switch {
	case from == len(b):
	case b[from] == '"':
		to = SkipString(b, from)
	case b[from] == '{' || b[from] == '[':
		to = skipNested(b, from)
	default:
		to = skipLiteral(b, from)
	}
	if to <= from {
		r.fail()
		return Span{}
	}
	r.Pos = to
	return Span{from, to}
}

// SkipString returns the index after the string that begins at i, or -1 if it does
// not end. It checks nothing and goes from quote to quote, because texts are long.
func SkipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		at := quote
		for at > i && b[at-1] == '\\' {
			at--
		}
		i = quote + 1
		if (quote-at)%2 == 0 {
			return i
		}
	}
}

// skipNested returns the index after the object or array that begins at i, or -1 if it
// does not end. It checks nothing.
func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = SkipString(b, i) - 1; i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// skipLiteral returns the index after the number or literal at i, which may be one that JSON
// does not have, such as NaN. It returns i if there is none.
func skipLiteral(b []byte, i int) int {
	for i < len(b) && (b[i] >= '-' && b[i] <= '9' || b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z' || b[i] == '+') {
		i++
	}
	return i
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
