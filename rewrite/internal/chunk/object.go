package chunk

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Object is a Frame with the edits that it leaves with. All bytes that are not edited keep
// their place, so that key order, escapes and framing stay as upstream sent them (contract
// section 0).
//
// The zero value is ready for use: call Begin for each frame, and parse F and C. What the
// methods return is valid until the next Begin.
type Object struct {
	Frame
	Edits sse.Splice
	// Notes collects the changes.
	Notes *contract.Notes

	room []byte // what has been written for the frame; see Commit
}

// Begin drops the edits of the frame before, and what was written for it.
func (x *Object) Begin() {
	x.Edits.Reset()
	x.room = x.room[:0]
}

// commit keeps the bytes that have been appended to room until the next frame, and returns
// only those.
func (x *Object) commit(appended []byte) []byte {
	added := appended[len(x.room):]
	x.room = appended
	return added
}

// Replace replaces data[from:to] of the frame.
func (x *Object) Replace(from, to int, with []byte) { x.Edits.Replace(&x.F, from, to, with) }

// Set replaces the value at v, or adds a member with the name if v is absent.
func (x *Object) Set(v jsonspan.Span, name string, value []byte) {
	if v.Ok() {
		x.Replace(v.From, v.To, value)
		return
	}
	x.Append(x.commit(append(append(append(append(x.room, `,"`...), name...), `":`...), value...)))
}

// Append adds members after the last one. They begin with a comma.
func (x *Object) Append(members []byte) { x.Replace(x.C.Shut, x.C.Shut, members) }

// Remove removes the member with the value at v, and the comma before or after it, if
// there is one. It is for errors: beside a finish reason even an error that is null ends
// the streams of some clients before they have read that.
func (x *Object) Remove(v jsonspan.Span) {
	if !v.Ok() {
		return
	}
	data, to := x.F.Data, v.To
	from := bytes.LastIndexByte(data[:v.From], '"') // the end of the name, which has no escapes
	from = bytes.LastIndexByte(data[:from], '"')
	if before := bytes.TrimRight(data[:from], " \t\r\n"); before[len(before)-1] == ',' {
		x.Replace(len(before)-1, to, nil)
		return
	}
	if next := jsonspan.SkipSpace(data, to); data[next] == ',' {
		to = jsonspan.SkipSpace(data, next+1)
	}
	x.Replace(from, to, nil)
}

// KeepOneError removes every error of the object but C.Err: clients differ in which of
// several they use (contract section 3). It must come before all edits.
func KeepOneError(x *Object) {
	if !x.C.MoreErrors {
		return
	}
	data, first := x.F.Data, true // nothing before the member stays
	from, end := -1, 0            // where the removed bytes begin, and where the member before ends
	for name, value := range jsonspan.Members(data, x.span()) {
		before := end
		if first {
			before = name.From - len(`"`)
		}
		switch remove := value != x.C.Err && jsonspan.Spells(name.Of(data), "error"); {
		case !remove && from >= 0:
			x.Replace(from, before, nil)
			from = -1
			fallthrough
		case !remove:
			first = false
		case from < 0:
			from = before
		}
		end = value.To
	}
	if from >= 0 {
		x.Replace(from, end, nil)
	}
	if !x.Edits.Empty() {
		x.reparse()
	}
}

// reparse makes the edits and parses the result. It is for edits of very much, which
// must come before all others.
func (x *Object) reparse() {
	x.F.Parse(x.Edits.Append(make([]byte, 0, x.Edits.Size(&x.F)), &x.F))
	x.C.Parse(x.F.Data)
	x.Edits.Reset()
}

// DropFinish replaces each finish reason of the object's choices by null.
func DropFinish(x *Object) {
	for choice := range jsonspan.Elements(x.F.Data, x.C.Choices) {
		if v := jsonspan.MemberOf(x.F.Data, choice, "finish_reason"); v.IsSet(x.F.Data) {
			x.Replace(v.From, v.To, []byte("null"))
		}
	}
}

// renamedPrefix is put before the names of members that would be there twice.
var renamedPrefix = []byte("hermes_")

// RenameMembers renames the members of a named event that have the names of a chunk's
// members or of Open WebUI's status, which are added to it. Clients that loop over choices
// break on those of approval.request, and Open WebUI breaks on an event that is a string
// (contract section 2). If card is true, those of a card count, too. It must come before
// all other edits, because it may parse the frame again.
func (x *Object) RenameMembers(card bool) {
	c := &x.C
	if !c.Extra && !c.ID.Ok() && !c.Object.Ok() && !c.Created.Ok() && !c.Model.Ok() && !c.Choices.Ok() {
		return // as in almost all tool events
	}
	n := 0
	x.eachRenamed(card, func(int) { n++ })
	if n <= manyNames {
		x.eachRenamed(card, func(at int) { x.Replace(at, at, renamedPrefix) })
		return
	}
	data, from, at := x.F.Data, -1, 0
	renamed := make([]byte, 0, len(data)+n*len(renamedPrefix))
	x.eachRenamed(card, func(name int) {
		if from < 0 {
			from, at = name, name
		}
		renamed = append(append(renamed, data[at:name]...), renamedPrefix...)
		at = name
	})
	x.Replace(from, at, jsonspan.OneLine(renamed))
	x.reparse()
}

// The members that every chunk has, and those of a card.
var (
	chunkMembers = []string{"id", "object", "created", "model", "choices"}
	cardMembers  = []string{"type", "output_index", "item"}
)

// eachRenamed calls each with the position of every name that RenameMembers renames.
func (x *Object) eachRenamed(card bool, each func(at int)) {
	data := x.F.Data
	for name, value := range jsonspan.Members(data, x.span()) {
		is := func(member string) bool { return jsonspan.Spells(name.Of(data), member) }
		if slices.ContainsFunc(chunkMembers, is) || card && slices.ContainsFunc(cardMembers, is) || is("event") && value.IsString(data) {
			each(name.From)
		}
	}
}

// manyNames is the number of names above which one edit renames all of them.
const manyNames = 256

// KeepContent adds the edits that leave nothing of the content but k, as reasoning if
// reasoning is true. If the chunk repeats its content, it repeats the rest, but no
// reasoning.
func (x *Object) KeepContent(k *prose.Kept, reasoning bool) {
	c := &x.C
	if reasoning {
		x.Replace(c.ContentKey.From, c.ContentKey.To, []byte("reasoning_content"))
	}
	x.keepAt(k, 0)
	if !c.Repeat.Ok() {
		return
	}
	if none := x.NoContent(); reasoning {
		k = &none
	}
	x.keepAt(k, c.Repeat.From-c.Content.From)
}

// DropContent adds the edits that leave nothing of the content.
func (x *Object) DropContent() {
	none := x.NoContent()
	x.KeepContent(&none, false)
}

// manyCuts is the number of cuts above which one edit replaces all of them: an edit for
// each would take more memory than the text.
const manyCuts = 64

// keepAt adds the edits that leave nothing but k of the content, or of its copy shift
// bytes after it.
func (x *Object) keepAt(k *prose.Kept, shift int) {
	in := x.C.Content.Inner()
	cut := func(from, to int, with []byte) {
		if from < to || len(with) > 0 {
			x.Replace(from+shift, to+shift, with)
		}
	}
	if n := len(k.Cuts); n > manyCuts {
		head := *k
		head.To = k.Cuts[n-1].To
		x.Replace(in.From+shift, head.To+shift, x.commit(head.AppendTo(slices.Grow(x.room, head.Len()), x.F.Data)))
		cut(k.To, in.To, nil)
		return
	}
	cut(in.From, k.From, k.Front)
	for _, c := range k.Cuts {
		cut(c.From, c.To, nil)
	}
	cut(k.To, in.To, nil)
}
