package chunk

import (
	"bytes"
	"math/bits"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// AppendDelta appends a chunk of our own with what k keeps of the text in data, as
// content or as reasoning. role is a JSON string, or nil. repeats says that the choice
// repeats the content in its member text, as upstream's do.
func (e *Envelope) AppendDelta(dst, role []byte, repeats, reasoning bool, k *prose.Kept, data []byte) []byte {
	dst = append(e.AppendHead(append(dst, "data: {"...)), `[{"index":0,`...)
	if repeats && !reasoning {
		dst = append(k.AppendTo(append(dst, `"text":"`...), data), `",`...)
	}
	dst = append(dst, `"delta":{`...)
	if len(role) > 0 {
		dst = append(append(append(dst, `"role":`...), role...), ',')
	}
	if reasoning {
		dst = append(dst, `"reasoning_content":"`...)
	} else {
		dst = append(dst, `"content":"`...)
	}
	return append(k.AppendTo(dst, data), "\"},\"finish_reason\":null}]}\n\n"...)
}

// AppendErrorChoices appends the choices of an error finish: those whose bit is set in
// open, so that no client waits for one, or the first one if no bit is set.
func AppendErrorChoices(dst []byte, open uint64) []byte {
	if open == 0 {
		open = 1
	}
	before := byte('[')
	for ; open != 0; open &= open - 1 {
		dst = append(append(dst, before), `{"index":`...)
		dst = strconv.AppendInt(dst, int64(bits.TrailingZeros64(open)), 10)
		dst = append(dst, `,"delta":{},"finish_reason":"error"}`...)
		before = ','
	}
	return append(dst, ']')
}

// AppendHermes appends the hermes block of an error finish. partial says that
// something of the answer has left.
func AppendHermes(dst, message []byte, partial bool) []byte {
	dst = append(dst, `{"completed":false,"partial":`...)
	dst = strconv.AppendBool(dst, partial)
	dst = append(append(dst, `,"failed":true,"error":`...), message...)
	return append(dst, `,"error_code":"`+contract.CodeAgentError+`"}`...)
}

// UpstreamError returns the object of an error frame: upstream's error without secrets,
// and the members that clients expect and that it lacks; all of them if it is no object.
// message, a JSON string, is its message if it has none.
func (x *Object) UpstreamError(message []byte) []byte {
	data, e := x.F.Data, x.C.Err
	if !e.IsObject(data) {
		return x.Commit(contract.AppendErrorObject(x.room, message, contract.CodeAgentError))
	}
	expected := [...]struct {
		name, value string
		at          jsonspan.Span
	}{{name: "message"}, {name: "type", value: `"` + contract.ErrorType + `"`}, {name: "param", value: "null"}, {name: "code", value: `"` + contract.CodeAgentError + `"`}}
	for name, value := range jsonspan.Members(data, e) {
		for i := range expected {
			if m := &expected[i]; name.Is(data, m.name) {
				m.at = value
			}
		}
	}
	from := len(x.room)
	object := append(x.room, `{"error":`...)
	if v := expected[0].at; v.Ok() && x.String(v) == nil {
		object = append(append(object, redact.Value(data[e.From:v.From])...), message...)
		object = append(object, redact.Value(data[v.To:e.To-1])...)
	} else {
		object = append(object, redact.Value(data[e.From:e.To-1])...)
	}
	object = jsonspan.OneLine(object[from:])
	for _, m := range expected {
		if m.at.Ok() {
			continue
		}
		if !bytes.HasSuffix(bytes.TrimRight(object, " \t\r"), []byte("{")) {
			object = append(object, ',')
		}
		object = append(append(append(append(object, '"'), m.name...), `":`...), m.value...)
		if m.value == "" {
			object = append(object, message...)
		}
	}
	return x.Commit(append(append(x.room[:from], object...), "}}"...))
}
