package whole

import (
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Healed is what Heal has removed from the body of a request and read in it.
type Healed struct {
	// Markers is the number of marker lines that were removed.
	Markers int
	// Cards is the number of tool cards that were removed.
	Cards int
	// Asked is the form of answer that the request asks for.
	Asked Asked
}

// Changed reports whether the body was changed.
func (h *Healed) Changed() bool { return h.Markers > 0 || h.Cards > 0 }

// Asked is what a request says about the form of its answer, in its member
// stream.
type Asked uint8

// What a request may say about the form of its answer.
const (
	// AskedUnknown means that the body is not a JSON object, or that stream is neither
	// a boolean nor null, so that servers may differ. The zero value.
	AskedUnknown Asked = iota
	// AskedStream means that stream is true.
	AskedStream
	// AskedWhole means that stream is false, null or absent: the answer comes whole.
	AskedWhole
)

// Heal removes the marker lines of known tools from the content of the
// assistant's messages in body, the JSON of a request, and joins the messages of each
// answer that Open WebUI has taken apart for its cards (contract section 5). Every other
// byte stays. The healed body is a copy. If there is nothing to heal it is
// body itself. Nil tools mean Hermes' own.
//
// A content is a string, or an array of parts whose texts are those of the parts with the
// type text. If messages, content or text are there twice, Heal heals both, because
// servers differ in the one they use. If role, type or stream are there twice, the last
// one counts, as for most servers. A body passes untouched if it is not well-formed JSON
// in UTF-8, is nested deeper than jsonspan.MaxDepth, or has a lone surrogate in a marker.
func Heal(body []byte, tools *marker.Table) ([]byte, Healed) {
	tools = (&contract.Options{Tools: tools}).ToolTable()
	h := healer{Reader: jsonspan.Reader{Data: body}, tools: tools}
	if !h.body() {
		return body, Healed{}
	}
	if h.mayBeCards {
		if joined, n := joinCards(body); n > 0 { // a line, and a fence, may go on in the next text
			body = joined
			h = healer{Reader: jsonspan.Reader{Data: body}, tools: tools}
			h.body()
			h.healed.Cards = n
		}
	}
	if h.invalid || h.loneSurrogate || h.healed.Markers == 0 {
		h.healed.Markers = 0
		return body, h.healed
	}
	return append(h.out, body[h.at:]...), h.healed
}

// healer walks once over the body of a request. It reads what content can be in, and
// skips everything else. It validates the body before it cuts the first byte.
//
// It does not use jsonspan.Members and Elements. They skip a value before the caller sees
// it, so that the messages, nearly all of a body, would be scanned once for each level.
type healer struct {
	jsonspan.Reader
	tools  *marker.Table
	line   marker.Line // room to read a marker line
	healed Healed

	texts []jsonspan.Span // insides of the strings in the content of the current message

	out           []byte // the healed body so far, nil before the first cut
	at            int    // Data[:at] is in out, without the cuts
	mayBeCards    bool   // an assistant's message has tool calls that may be cards
	invalid       bool   // the body needs a cut, but is not valid
	loneSurrogate bool   // a marker has a lone surrogate, which no text can have contained
}

// body walks over the whole body. It returns false if the body is not a JSON object, or
// if anything follows that.
func (h *healer) body() bool {
	h.Pos = jsonspan.SkipSpace(h.Data, 0)
	if !h.At('{') {
		return false
	}
	h.healed.Asked = AskedWhole
	for h.Open(); ; {
		key, ok := h.Member()
		switch {
		case !ok:
			return h.AtEnd()
		case h.means(key, "messages"):
			h.messages()
		case h.means(key, "stream"):
			h.healed.Asked = h.stream()
		default:
			h.Skip()
		}
	}
}

// stream reads the value of the member stream.
func (h *healer) stream() Asked {
	switch string(h.Skip().Of(h.Data)) {
	case "true":
		return AskedStream
	case "false", "null":
		return AskedWhole
	}
	return AskedUnknown
}

// messages walks over the messages, if they are an array.
func (h *healer) messages() {
	if !h.At('[') {
		h.Skip()
		return
	}
	for h.Open(); h.Element(); {
		if h.At('{') {
			h.message()
		} else {
			h.Skip()
		}
	}
}

// message walks over a message, and heals it if it is the assistant's. The role may come
// behind the content.
func (h *healer) message() {
	if h.texts = h.texts[:0]; cap(h.texts) > manyTexts {
		h.texts = nil
	}
	assistant := false
	var calls jsonspan.Span
	for h.Open(); ; {
		key, ok := h.Member()
		if !ok {
			break
		}
		switch {
		case h.means(key, "role"):
			assistant = h.string("assistant")
		case h.means(key, "content"):
			h.content()
		case h.means(key, "tool_calls"):
			calls = h.Skip()
		default:
			h.Skip()
		}
	}
	if !assistant {
		return
	}
	h.mayBeCards = h.mayBeCards || calls.Ok() && mayBeCards(calls.Of(h.Data))
	for _, t := range h.texts {
		h.healText(t)
	}
}

// content adds the texts of a message's content to h.texts.
func (h *healer) content() {
	if !h.At('[') {
		h.text()
		return
	}
	for h.Open(); h.Element(); {
		if h.At('{') {
			h.part()
		} else {
			h.Skip()
		}
	}
}

// part adds the text of a part of a content to h.texts if the part has the type text.
func (h *healer) part() {
	n := len(h.texts)
	isText := false
	for h.Open(); ; {
		key, ok := h.Member()
		if !ok {
			break
		}
		switch {
		case h.means(key, "type"):
			isText = h.string("text")
		case h.means(key, "text"):
			h.text()
		default:
			h.Skip()
		}
	}
	if !isText {
		h.texts = h.texts[:n]
	}
}

// text adds the value to h.texts if it is a string that may have a marker.
func (h *healer) text() {
	v := h.Skip()
	if v.IsString(h.Data) && h.suspects(v.Inner()) {
		h.texts = append(h.texts, v.Inner())
	}
}

// string reports whether the value is the string want.
func (h *healer) string(want string) bool {
	v := h.Skip()
	return v.IsString(h.Data) && h.means(v.Inner(), want)
}

// means reports whether s, the inside of a JSON string, stands for want.
func (h *healer) means(s jsonspan.Span, want string) bool { return jsonspan.Spells(s.Of(h.Data), want) }

// cut takes Data[from:to] out of the body. Cuts come in order.
func (h *healer) cut(from, to int) {
	if h.out == nil && !h.invalid {
		h.invalid = !utf8.Valid(h.Data) || !jsonspan.Valid(h.Data)
		if !h.invalid {
			h.out = make([]byte, 0, len(h.Data))
		}
	}
	if h.invalid {
		return
	}
	h.out = append(h.out, h.Data[h.at:from]...)
	h.at = to
}

// manyTexts is the number of texts above which their list is not kept for the next
// message.
const manyTexts = 256
