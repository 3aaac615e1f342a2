package jsonspan

import "iter"

// Members returns an iterator over the names, without their quotes, and the values of
// the members of the object at v, in order. It does not check values. It ends where the
// object is not well formed, and at once if v is not an object.
func Members(b []byte, v Span) iter.Seq2[Span, Span] {
	return func(yield func(name, value Span) bool) {
		if !v.IsObject(b) {
			return
		}
		r := Reader{Data: b[:v.To], Pos: v.From}
		for r.Open(); ; {
			name, ok := r.Member()
			if !ok {
				return
			}
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

// MemberOf returns the value of the member with the name, which is ASCII, in the object at
// v, or the zero Span if there is none. If there are several, the last one counts, as it
// does for clients. A name counts as what it means.
func MemberOf(b []byte, v Span, name string) (found Span) {
	for key, value := range Members(b, v) {
		if Spells(key.Of(b), name) {
			found = value
		}
	}
	return found
}
