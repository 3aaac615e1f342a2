package rewrite

import "iter"

// reader goes through JSON once, from value to value, by position. What is wanted of
// an object or an array is read where it stands.
//
// It checks names and what stands between values. Of the values it checks those that
// value returns: where value has read them all and ends returns true, the JSON is well
// formed. It does not check those that pass returns. Most of a history is text that
// nobody wants, and what servers write beside JSON, such as NaN, must not hide the other
// members of an event.
//
// There are two ways through JSON in this package: a reader says where a value is, and
// gjson says what a string means (unquote). To check a chunk of 280 bytes and to find its
// values takes a reader 260 ns, gjson 1,953 ns, and jsontext 652 ns for the tokens alone.
// To pass over an image of 1 MB takes a reader a fifteenth of gjson's time.
type reader struct {
	b     []byte
	i     int  // how far it has read; at a value, where that begins
	depth int  // how many objects and arrays are open; after a failure they stay open
	first bool // the innermost of them has had no member yet
}

// open goes into the object or array that begins here.
func (r *reader) open() {
	r.i++
	r.depth++
	r.first = true
}

// opens reports whether the value here begins with c.
func (r *reader) opens(c byte) bool { return r.i < len(r.b) && r.b[r.i] == c }

// member goes to the value of the next member of the open object, and returns the name
// as it stands there, without its quotes. At the object's end it leaves the object and
// returns false.
func (r *reader) member() (name span, ok bool) {
	if !r.next('}') {
		return name, false
	}
	name, value := keyAt(r.b, r.i)
	if value < 0 {
		return name, r.fail()
	}
	r.i = value
	return name, true
}

// element goes to the next value of the open array. At the array's end it leaves the
// array and returns false.
func (r *reader) element() bool { return r.next(']') }

// next goes behind the comma before the next member or element.
func (r *reader) next(shut byte) bool {
	b := r.b
	i := blankFrom(b, r.i)
	if i == len(b) {
		return r.fail()
	}
	switch c := b[i]; {
	case c == ',' && !r.first:
		i = blankFrom(b, i+1)
	case c == shut:
		r.i, r.first = i+1, false
		r.depth--
		return false
	case !r.first:
		return r.fail()
	}
	r.i, r.first = i, false
	return true
}

// value checks the value here, goes behind it, and returns where it is.
func (r *reader) value() span {
	from, to := r.i, -1
	switch {
	case r.opens('"'):
		to = stringEnd(r.b, from)
	case from < len(r.b):
		to = valueEnd(r.b, from, r.depth)
	}
	if to < 0 {
		r.fail()
		return span{}
	}
	r.i = to
	return span{from, to}
}

// pass goes behind the value here without a check, and returns where it is.
func (r *reader) pass() span {
	b, from, to := r.b, r.i, r.i
	switch {
	case from == len(b):
	case b[from] == '"':
		to = skipString(b, from)
	case b[from] == '{' || b[from] == '[':
		to = skipNested(b, from)
	default:
		for to < len(b) && inLiteral(b[to]) {
			to++
		}
	}
	if to <= from {
		r.fail()
		return span{}
	}
	r.i = to
	return span{from, to}
}

// skipNested returns the index behind the object or array that begins at i, -1 when it
// does not end. It checks nothing.
func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = skipString(b, i) - 1; i < 0 {
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

// inLiteral reports whether c may be in a number or a literal, those included that JSON
// does not know.
func inLiteral(c byte) bool {
	return c >= '-' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+'
}

// fail records that the JSON is not well formed: there is nothing more to read. It
// always returns false so that callers can return it.
func (r *reader) fail() bool {
	r.i = len(r.b)
	return false
}

// ends reports whether all has been read to its end, and nothing follows.
func (r *reader) ends() bool { return r.depth == 0 && blankFrom(r.b, r.i) == len(r.b) }

// membersOf returns the names, without their quotes, and the values of the members of
// the object at v, in order. They end where the object is not well formed.
func membersOf(b []byte, v span) iter.Seq2[span, span] {
	return func(yield func(name, value span) bool) {
		if !v.isObject(b) {
			return
		}
		r := reader{b: b[:v.to], i: v.from}
		for r.open(); ; {
			name, ok := r.member()
			if !ok {
				return
			}
			if value := r.pass(); !value.ok() || !yield(name, value) {
				return
			}
		}
	}
}

// elementsOf returns the elements of the array at v, as membersOf does.
func elementsOf(b []byte, v span) iter.Seq[span] {
	return func(yield func(value span) bool) {
		if !v.ok() || b[v.from] != '[' {
			return
		}
		r := reader{b: b[:v.to], i: v.from}
		for r.open(); r.element(); {
			if value := r.pass(); !value.ok() || !yield(value) {
				return
			}
		}
	}
}

// memberOf returns the value of a member of the object at v. Of several the last
// counts.
func memberOf(b []byte, v span, name string) (found span) {
	for key, value := range membersOf(b, v) {
		if key.is(b, name) {
			found = value
		}
	}
	return found
}
