package encode

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// Failure says why a stream has failed.
type Failure struct {
	Code     string
	Message  []byte // a JSON string
	Reported bool   // the finish chunk says error itself, maybe with the reason
	Sent     bool   // an error frame with the message has left
	Partial  bool   // text or reasoning with a non-space character has left
}

func (w *Writer) inline() bool { return w.o.ErrorFinish == contract.ErrorFinishInline }

// ErrorFinish writes the error finish of a stream that upstream has not finished, but not
// its [DONE]. It finishes the choices whose bit is set in open, so that no client waits
// for one, or the first one if no bit is set. usage, a JSON object, may be empty.
func (w *Writer) ErrorFinish(f *Failure, open uint64, usage []byte) {
	choices := ""
	for open = max(open, 1); open != 0; open &= open - 1 {
		choices += fmt.Sprintf(`,{"index":%d,"delta":{},"finish_reason":"error"}`, bits.TrailingZeros64(open))
	}
	members := strings.Join(w.envelope().members("["+choices[1:]+"]"), "")
	if len(usage) > 0 {
		members += `,"usage":` + string(usage)
	}
	var x chunk.Object
	x.F.Parse([]byte("data: {" + members + "}\n\n"))
	x.C.Parse(x.F.Data)
	w.FailedFinish(&x, f, &prose.Kept{})
}

// FailedFinish writes the finish chunk x of an agent that failed as an error finish; x says stop,
// or reports the failure. Unless ErrorFinish is inline, the error leaves first, in a frame of its
// own, and then x without it. rest is the rest of the content of x.
func (w *Writer) FailedFinish(x *chunk.Object, f *Failure, rest *prose.Kept) {
	if w.inline() && f.Reported {
		w.Object(x)
		return
	}
	if !w.inline() && !f.Sent {
		if rest.Len() > 0 { // before the error, because clients stop reading there
			w.Delta(x, false, rest)
			x.Edits.Reset()
			x.DropContent()
		}
		w.errorFrame(x, f)
	}
	if !f.Reported {
		x.Fail()
	}
	w.fill(x)
	if w.inline() && !f.Sent {
		x.Set(x.C.Err, "error", contract.AppendErrorValue(nil, f.Message, f.Code))
	} else {
		x.Remove(x.C.Err)
	}
	if !f.Reported || !x.C.Hermes.IsSet(x.F.Data) {
		x.Set(x.C.Hermes, "hermes", []byte(f.hermes()))
	}
	w.Object(x)
}

// fill adds the members of the envelope that the chunk x lacks. Hermes 0.13 sends a chunk of
// nothing but choices if its writer fails (contract section 3).
func (w *Writer) fill(x *chunk.Object) {
	c, e := &x.C, w.envelope()
	add := func(at jsonspan.Span, has []byte, name, value string) {
		switch first := c.All.From + 1; {
		case has != nil:
		case at.Ok(): // it is null, or empty
			x.ReplaceValue(at, value)
		default:
			x.Replace(first, first, []byte(`"`+name+`":`+value+`,`))
		}
	}
	add(c.ID, x.String(c.ID), "id", e.ID)
	add(c.Object, x.String(c.Object), "object", `"chat.completion.chunk"`)
	add(c.Created, chunk.NumberAt(x.F.Data, c.Created), "created", e.Created)
	add(c.Model, x.String(c.Model), "model", e.Model)
}

// hermes returns the hermes block of an error finish. It repeats the message, redacted again after
// it was cut, because its beginning may look like a secret when the whole does not.
func (f *Failure) hermes() string {
	message := redact.Value(jsonspan.Truncate(f.Message, contract.MaxMessage))
	return `{"completed":false,"partial":` + strconv.FormatBool(f.Partial) + `,"failed":true,"error":` + string(message) +
		`,"error_code":"` + contract.CodeAgentError + `"}`
}

// errorFrame writes the frame of an error. If the finish chunk x reports the error, the frame has
// upstream's own, and the members that clients expect and the error lacks.
func (w *Writer) errorFrame(x *chunk.Object, f *Failure) {
	var value []byte
	if at := x.C.Err; f.Reported && at.IsObject(x.F.Data) && jsonspan.SkipSpace(x.F.Data, at.From+1) != at.To-1 {
		value = jsonspan.Finite(jsonspan.OneLine(x.Value(at)))
	} else {
		value = contract.AppendErrorValue(nil, f.Message, f.Code)
	}
	var y chunk.Object
	y.F.Parse(slices.Concat([]byte(`data: {"error":`), value, []byte("}\n\n")))
	y.C.Parse(y.F.Data)
	y.C.All = y.C.Err // so that its members are those of the error
	if m := y.Member("message"); y.String(m) == nil {
		y.Set(m, "message", f.Message)
	}
	for _, m := range [...][2]string{
		{"type", `"` + contract.ErrorType + `"`}, {"param", "null"}, {"code", `"` + f.Code + `"`},
	} {
		if !y.Member(m[0]).Ok() {
			y.Set(jsonspan.Span{}, m[0], []byte(m[1]))
		}
	}
	w.Out.BeginOwn()
	w.Out.Bytes = y.Edits.Append(w.Out.Bytes, &y.F)
}

// Refusal returns the frame of a finish chunk with the error, a JSON object on one line, inside it.
func (w *Writer) Refusal(object []byte) []byte {
	members := w.envelope().members(`[{"index":0,"delta":{},"finish_reason":"error"}],"error":` + string(object))
	return []byte("data: {" + strings.Join(members, "") + "}\n\n")
}
