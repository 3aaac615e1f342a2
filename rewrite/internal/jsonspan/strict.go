package jsonspan

import (
	"encoding/binary"
	"slices"
	"sync"
	"unicode/utf8"
)

// Text checks the string at Pos as Value does, and that it is UTF-8. It moves behind the
// string, and returns where that is, whether it has an escape like \u0041, and the index of
// its last backtick that such an escape or a rune beyond ASCII follows, or 0. It takes the
// same time for every byte, so it is for long texts with escapes or other letters than ASCII.
func (r *Reader) Text() (s Span, unicode bool, tick int) {
	from := r.Pos
	for i := from + 1; r.At('"'); {
		at, state := strictEnd(r.Data, i)
		if at == len(r.Data) {
			break
		}
		switch c := r.Data[at]; {
		case c == '"' && (state == inText || state == behindTick):
			r.Pos = at + 1
			return Span{from, at + 1}, unicode, tick
		case c >= utf8.RuneSelf && state == behindTick:
			i, tick = at, at-1
			continue
		case c == 0xf4 && state == inText: // the last plane, which has no state
			if _, n := utf8.DecodeRune(r.Data[at:]); n == utf8.UTFMax {
				i = at + n
				continue
			}
		case c == 'u' && state == inEscape:
			if r.Data[at-2] == '`' {
				tick = at - 2
			}
			if end := unicodeEnd(r.Data, at-1); end >= 0 {
				for unicode = true; end >= 0; end = unicodeEnd(r.Data, end) { // where one is, there often are more
					i = end
				}
				continue
			}
		}
		break
	}
	r.fail()
	return Span{}, false, 0
}

// unicodeEnd returns the index behind the escape at i if that is one like \u0041, or -1.
func unicodeEnd(b []byte, i int) int {
	if i+1 < len(b) && b[i] == '\\' && b[i+1] == 'u' {
		if _, ok := Hex4(b, i+2); ok {
			return i + 6
		}
	}
	return -1
}

// The states between the bytes of a text. They are multiples of six, to be shifted by.
const (
	inText     = 6 * iota
	behindTick // in the text, behind a backtick
	inEscape   // behind a backslash
	inRune1    // one more byte of a rune must come
	inRune2
	inRune3
	inRuneE0 // behind the first byte of a rune, after which not every second byte may come
	inRuneED
	inRuneF0
	outside // the text has ended, or goes on in a way that strictSteps does not know; a uint64 has no room for more
)

// strictSteps has the state behind each byte, six bits for each state before it.
var strictSteps = func() (steps [256]uint64) {
	set := func(state int, first, last byte, next uint64) {
		for c := int(first); c <= int(last); c++ {
			steps[c] = steps[c]&^(63<<state) | next<<state
		}
	}
	for state := inText; state <= outside; state += 6 {
		set(state, 0, 0xff, outside)
	}
	for _, state := range []int{inText, behindTick} {
		set(state, ' ', 0x7f, inText)
		set(state, '"', '"', outside)
		set(state, '`', '`', behindTick)
		set(state, '\\', '\\', inEscape)
	}
	for _, c := range []byte(`"\/bfnrt`) {
		set(inEscape, c, c, inText)
	}
	set(inText, 0xc2, 0xdf, inRune1) // RFC 3629, section 4
	set(inText, 0xe0, 0xef, inRune2)
	set(inText, 0xe0, 0xe0, inRuneE0)
	set(inText, 0xed, 0xed, inRuneED)
	set(inText, 0xf1, 0xf3, inRune3)
	set(inText, 0xf0, 0xf0, inRuneF0)
	set(inRune1, 0x80, 0xbf, inText)
	set(inRune2, 0x80, 0xbf, inRune1)
	set(inRune3, 0x80, 0xbf, inRune2)
	set(inRuneE0, 0xa0, 0xbf, inRune1)
	set(inRuneED, 0x80, 0x9f, inRune1)
	set(inRuneF0, 0x90, 0xbf, inRune2)
	return steps
}()

// strictPairs has the steps of two bytes at once. Bytes whose steps are the same are of one
// class, and there are at most 16 classes.
type strictPairs struct {
	classes [1 << 16]uint8 // of two bytes, as a little-endian number
	steps   [1 << 8]uint64 // as in strictSteps, by the classes of both
}

// pairsOnce returns the steps of two bytes. They are made when they are first needed.
var pairsOnce = sync.OnceValue(func() *strictPairs {
	var (
		p       strictPairs
		class   [256]uint8
		classes []uint64
	)
	for c, steps := range strictSteps {
		n := slices.Index(classes, steps)
		if n < 0 {
			n = len(classes)
			classes = append(classes, steps)
		}
		class[c] = uint8(n)
	}
	for i := range p.classes {
		p.classes[i] = class[i&0xff]<<4 | class[i>>8]
	}
	for a, first := range classes {
		for b, second := range classes {
			for state := inText; state <= outside; state += 6 {
				p.steps[a<<4|b] |= second >> (first >> state & 63) & 63 << state
			}
		}
	}
	return &p
})

// strictEnd returns the index of the first byte from i on, where a text or its rest begins,
// that is outside, and the state before that. The index is len(b) if there is none.
//
// A step is a shift: the state is the lowest six bits, and the others do no harm.
func strictEnd(b []byte, i int) (at int, state uint64) {
	state = inText
	p := pairsOnce()
	for i+16 <= len(b) {
		s := b[i : i+16]
		next := p.steps[p.classes[binary.LittleEndian.Uint16(s)]] >> (state & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[2:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[4:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[6:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[8:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[10:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[12:])]] >> (next & 63)
		next = p.steps[p.classes[binary.LittleEndian.Uint16(s[14:])]] >> (next & 63)
		if next&63 == outside {
			break
		}
		state = next
		i += 16
	}
	for ; i < len(b); i++ {
		next := strictSteps[b[i]] >> (state & 63)
		if next&63 == outside {
			break
		}
		state = next
	}
	return i, state & 63
}
