package jsonspan

// Reader goes through a JSON document once, from value to value, and checks it on
// the way: if AtEnd returns true behind the outermost value, all of it is well
// formed. Open enters an object or an array, Value passes over a value:
//
//	for r.Open(); ; {
//		name, ok := r.Member()
//		if !ok {
//			break
//		}
//		value := r.Value()
//	}
//
// Behind an error every method returns false or the zero Span, and Pos is
// len(Data).
type Reader struct {
	Data  []byte // all of the document
	Pos   int    // how far it has been read: where the value to be read begins, if there is one
	depth int    // how many objects and arrays are open
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
// where its name is, without the quotes. At the end of the object it leaves the
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

// Element moves to the next value of the open array. At the end of the array it
// leaves the array and returns false.
func (r *Reader) Element() bool { return r.next(']') }

// next moves behind the comma before the next member or element.
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

// Value moves behind the value at Pos, and returns where that is. A string, number
// or literal is a Value; an object or an array may be one or may be opened.
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

// fail records that the JSON is not well formed: there is nothing more to read. It
// always returns false so that callers can return it.
func (r *Reader) fail() bool {
	r.Pos = len(r.Data)
	return false
}

// AtEnd reports whether the outermost value has been read to its end, and only
// white space follows.
func (r *Reader) AtEnd() bool { return r.depth == 0 && SkipSpace(r.Data, r.Pos) == len(r.Data) }
