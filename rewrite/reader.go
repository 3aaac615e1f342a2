package rewrite

// reader goes through JSON once, from value to value, and checks it on the way:
// when it ends, all of it is well formed. What is
// wanted of an object or an array is read where it stands, the rest is passed over.
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

// value goes behind the value here, and returns where it is.
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

// fail notes that the JSON is not well formed: there is nothing more to read. It
// is false.
func (r *reader) fail() bool {
	r.i = len(r.b)
	return false
}

// ends tells whether all has been read to its end, and nothing follows.
func (r *reader) ends() bool { return r.depth == 0 && blankFrom(r.b, r.i) == len(r.b) }
