package rewrite

import "iter"

// reader goes through JSON once, from value to value, by position. What is wanted of
// an object or an array is read where it stands.
//
// It checks names, what stands between values, and the values that value returns: it
// takes 260 ns to check a chunk of 280 bytes and to find its values, gjson 1,953. Where
// value has read all of them and ends is true, all is well formed. What pass returns it
// does not check, for a history is nearly all text that nobody wants: it passes over an
// image of 1 MB in a fifteenth of gjson's time. And what servers write beside JSON, such
// as NaN, hides no other member.
//
// There is one other way through JSON: a reader says where a value is, gjson what a
// string says (unquote).
type reader struct {
	b     []byte
	i     int  // how far it has read; at a value, where that begins
	depth int  // how many objects and arrays are open; where it has failed, those stay so
	first bool // the one that is read has had no member yet
}

// open goes into the object or array that begins here.
func (r *reader) open() {
	r.i++
	r.depth++
	r.first = true
}

// opens tells whether the value here begins with c.
func (r *reader) opens(c byte) bool { return r.i < len(r.b) && r.b[r.i] == c }

// member goes to the value of the next member of the object that is open, and
// returns the name as it stands there, without its quotes. At the object's end it
// leaves that and is false.
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

// element goes to the next value of the array that is open. At the array's end it
// leaves that and is false.
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
	from, to := r.i, r.i
	switch {
	case r.opens('"'):
		to = skipString(r.b, from)
	case r.opens('{'), r.opens('['):
		to = skipNested(r.b, from)
	default:
		for to < len(r.b) && inLiteral(r.b[to]) {
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

// fail notes that the JSON is not well formed: there is nothing more to read. It
// is false.
func (r *reader) fail() bool {
	r.i = len(r.b)
	return false
}

// ends tells whether all has been read to its end, and nothing follows.
func (r *reader) ends() bool { return r.depth == 0 && blankFrom(r.b, r.i) == len(r.b) }

// membersOf returns the names, without their quotes, and the values of the members of
// the object at v, in order. Where the object is not well formed they end.
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
