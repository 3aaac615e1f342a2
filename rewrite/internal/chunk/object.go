package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Object is a Frame with the edits that it leaves with. All bytes that are not edited keep
// their place, so that key order, escapes and framing stay as upstream sent them (contract
// section 0).
//
// The zero value is ready for Parse. What its methods return is valid until the next
// frame.
type Object struct {
	Frame
	Edits sse.Splice
	// Rest is what is left of its content, if that has been read.
	Rest prose.Kept
	// Like says that the frame differs from the one before in nothing but its text.
	Matched bool
	// Notes are told what is done.
	Notes *contract.Notes

	room []byte // for what is written
}

// Begin drops what is known of the frame before.
func (x *Object) Begin() {
	x.Edits.Reset()
	x.Matched, x.Rest, x.room = false, prose.Kept{}, x.room[:0]
}

// Forget lets go of the frame.
func (x *Object) Forget() {
	x.F.Forget()
	x.Matched, x.Rest, x.Notes, x.room = false, prose.Kept{}, nil, x.room[:0]
}

// Trim gives back what a large frame took and the next need not.
func (x *Object) Trim() {
	x.Edits.Trim()
	x.F.Trim()
	if cap(x.room) > maxIdleBuffer {
		x.room = nil
	}
}

// maxIdleBuffer is the size in bytes up to which a buffer is kept for the next frame.
const maxIdleBuffer = 16 << 10

// Keep keeps room, which is what Room returned and more, and returns what is more.
func (x *Object) Commit(room []byte) []byte {
	more := room[len(x.room):]
	x.room = room
	return more
}

// Room returns what more may be appended to, for Keep.
func (x *Object) Room() []byte { return x.room }

// Release gives back the room that has been kept since it had the length n.
func (x *Object) Rollback(n int) { x.room = x.room[:n] }

// Literal returns text as bytes.
func (x *Object) Literal(text string) []byte { return x.Commit(append(x.room, text...)) }

// Replace replaces data[from:to].
func (x *Object) Replace(from, to int, with []byte) { x.Edits.Replace(&x.F, from, to, with) }

// Set replaces the value at v, or adds a member if there is none.
func (x *Object) Set(v jsonspan.Span, name string, value []byte) {
	if v.Ok() {
		x.Replace(v.From, v.To, value)
		return
	}
	x.Append(x.Commit(append(append(append(append(x.room, `,"`...), name...), `":`...), value...)))
}

// Append adds members behind the last.
func (x *Object) Append(members []byte) { x.Replace(x.C.Shut, x.C.Shut, members) }

// Remove takes the member with the value at v, and the comma before or behind it, out
// of the frame. An error, even null, beside a finish reason ends some clients' streams
// before they have read it.
func (x *Object) Remove(v jsonspan.Span) {
	if !v.Ok() {
		return
	}
	data, to := x.F.Data, v.To
	from := bytes.LastIndexByte(data[:v.From], '"') // of a name without an escape
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

// reparse parses what the edits have the frame say, which are then done. It is for
// very many edits, which come before all others.
func (x *Object) reparse() {
	x.F.Parse(x.Edits.Append(make([]byte, 0, x.Edits.Size(&x.F)), &x.F))
	x.C.Parse(x.F.Data)
	x.Edits.Reset()
}

// Fill gives the chunk those members of the envelope that it lacks: the writer of
// Hermes 0.13 sends a chunk of nothing but choices when it fails (contract section 3).
func (x *Object) Fill(e *Envelope) {
	c, data := &x.C, x.F.Data
	at := c.Open + 1
	for _, m := range [...]struct {
		is    jsonspan.Span
		there bool
		name  string
		value []byte
	}{
		{c.ID, x.String(c.ID) != nil, `"id":`, e.ID()},
		{c.Object, x.String(c.Object) != nil, `"object":`, []byte(`"chat.completion.chunk"`)},
		{c.Created, c.Created.Ok() && jsonspan.IsDigit(data[c.Created.From]), `"created":`, e.Created()},
		{c.Model, x.String(c.Model) != nil, `"model":`, e.Model()},
	} {
		switch {
		case m.there:
		case m.is.Ok(): // it is null, or empty
			x.Replace(m.is.From, m.is.To, m.value)
		default:
			x.Replace(at, at, x.Commit(append(append(append(x.room, m.name...), m.value...), ',')))
		}
	}
}

// renamedPrefix is what the names of members get that would stand there twice.
var renamedPrefix = []byte("hermes_")

// RenameOwn renames the members of a named event that the members of a chunk, and Open
// WebUI's status, would stand beside: clients that loop over choices break on those of
// approval.request, and Open WebUI on an event that is a string (contract section 2). It
// comes before all edits: of very many names it makes a new frame.
func (x *Object) RenameMembers() {
	c := &x.C
	if !c.Extra && !c.ID.Ok() && !c.Object.Ok() && !c.Created.Ok() && !c.Model.Ok() && !c.Choices.Ok() {
		return // as in almost all tool events
	}
	n := 0
	x.eachRenamed(func(int) { n++ })
	if n <= manyNames {
		x.eachRenamed(func(at int) { x.Replace(at, at, renamedPrefix) })
		return
	}
	data, from, at := x.F.Data, -1, 0
	renamed := make([]byte, 0, len(data)+n*len(renamedPrefix))
	x.eachRenamed(func(name int) {
		if from < 0 {
			from, at = name, name
		}
		renamed = append(append(renamed, data[at:name]...), renamedPrefix...)
		at = name
	})
	x.Replace(from, at, jsonspan.OneLine(renamed))
	x.reparse()
}

// manyNames is the number of names from which on they are replaced at once.
const manyNames = 256
