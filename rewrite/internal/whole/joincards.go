package whole

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// join writes the messages of the answer as one, if there is an answer. before is where
// the element before them ends, and becomes where they end.
func (j *joiner) join(before *int) {
	if len(j.answer) == 0 {
		return
	}
	first := &j.answer[0]
	if !first.more && !j.says() { // an empty message goes, with a comma
		to := j.end
		if j.b[*before-1] == '[' {
			if next := jsonspan.SkipSpace(j.b, to); j.b[next] == ',' {
				to = jsonspan.SkipSpace(j.b, next+1)
			}
			j.copyTo(first.at.From)
		} else {
			j.copyTo(*before)
		}
		j.at = to
	} else {
		content, calls := &first.content, &first.calls
		switch {
		case !content.value.Ok():
			j.copyTo(calls.name.From - 1)
			j.out = append(j.out, `"content":`...)
			j.writeContent()
			j.at = calls.value.To
		case content.value.From < calls.value.From:
			j.copyTo(content.value.From)
			j.writeContent()
			j.at = content.value.To
			j.copyTo(calls.cut.From)
			j.at = calls.cut.To
		default:
			j.copyTo(calls.cut.From)
			j.at = calls.cut.To
			j.copyTo(content.value.From)
			j.writeContent()
			j.at = content.value.To
		}
		j.copyTo(first.at.To)
		j.at = j.end
		*before = j.end
	}
	j.answer = j.answer[:0]
}

// copyTo copies the body up to the index to.
func (j *joiner) copyTo(to int) {
	if cap(j.out) < len(j.b) {
		j.out = make([]byte, 0, len(j.b))
	}
	if to > j.at { // what stands before it may have gone
		j.out = append(j.out, j.b[j.at:to]...)
		j.at = to
	}
}

// says reports whether there is anything but white space in the answer.
func (j *joiner) says() bool {
	for i := range j.answer {
		c := j.answer[i].content.value
		if c.IsString(j.b) && jsonspan.HasText(c.Inner().Of(j.b)) {
			return true
		}
		for part := range jsonspan.Elements(j.b, c) {
			if text := j.textOf(part); !text.Ok() || jsonspan.HasText(text.Inner().Of(j.b)) {
				return true
			}
		}
	}
	return false
}

// writeContent writes the contents of the answer as one: a string or, if one of them is an
// array of parts, an array of all parts. A paragraph break keeps two texts apart if there
// is no newline between them: Open WebUI strips those that were there.
func (j *joiner) writeContent() {
	parts := false
	for i := range j.answer {
		c := j.answer[i].content.value
		parts = parts || c.Ok() && j.b[c.From] == '['
	}
	apart := true // nothing has to keep what comes from what has been
	write := func(text jsonspan.Span, newMessage bool) {
		in := text.Inner().Of(j.b)
		if len(in) == 0 {
			return
		}
		if r, _ := jsonspan.NextRune(in, 0); newMessage && !apart && r != '\n' {
			j.out = append(j.out, `\n\n`...)
		}
		j.out = append(j.out, in...)
		apart = endsWithNewline(in)
	}
	if !parts {
		j.out = append(j.out, '"')
		from := len(j.out)
		for i := range j.answer {
			if c := j.answer[i].content.value; c.IsString(j.b) {
				write(c, true)
			}
		}
		j.out = append(append(j.out[:from], trimSpace(j.out[from:])...), '"')
		return
	}
	comma := byte('[')
	for i := range j.answer {
		c, newMessage := j.answer[i].content.value, true
		if c.IsString(j.b) && len(c.Inner().Of(j.b)) > 0 {
			j.out = append(append(j.out, comma), `{"type":"text","text":"`...)
			write(c, true)
			j.out, comma = append(j.out, `"}`...), ','
		}
		for part := range jsonspan.Elements(j.b, c) {
			j.out, comma = append(j.out, comma), ','
			if text := j.textOf(part); text.Ok() {
				j.out = append(j.out, j.b[part.From:text.From+1]...)
				write(text, newMessage)
				j.out = append(j.out, j.b[text.To-1:part.To]...)
				newMessage = newMessage && text.To-text.From == len(`""`)
			} else {
				j.out = append(j.out, part.Of(j.b)...)
				apart, newMessage = true, false
			}
		}
	}
	if comma == '[' {
		j.out = append(j.out, comma)
	}
	j.out = append(j.out, ']')
}

// trimSpace returns the inside of a JSON string without the white space at its ends. Open
// WebUI sends no answer with any, but of one with cards it trims only the last text.
func trimSpace(in []byte) []byte {
	from := 0
	for from < len(in) {
		r, next := jsonspan.NextRune(in, from)
		if !jsonspan.IsSpace(r) {
			break
		}
		from = next
	}
	in = in[from:]
	for n := 1; ; {
		to := 0
		begin := runeNear(in, n)
		for i := begin; i < len(in); {
			r, next := jsonspan.NextRune(in, i)
			if !jsonspan.IsSpace(r) {
				to = next
			}
			i = next
		}
		if to > 0 || begin == 0 {
			return in[:to]
		}
		n = 2 * (len(in) - begin)
	}
}

// endsWithNewline reports whether the inside of a JSON string ends with a newline.
func endsWithNewline(in []byte) bool {
	last := rune(0)
	for i := runeNear(in, 1); i < len(in); {
		last, i = jsonspan.NextRune(in, i)
	}
	return last == '\n'
}

// runeNear returns where a rune begins in the inside of a JSON string, at least n bytes
// before its end or at its beginning. It is that of a space, which is in no escape.
func runeNear(in []byte, n int) int {
	return max(0, bytes.LastIndexByte(in[:max(0, len(in)-n+1)], ' '))
}
