package whole

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
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
	// Ignored is what the request asks for and Hermes ignores.
	Ignored Ignored
	// Diagnostic says that the request calls itself a diagnostic one, whose answer Hermes
	// mutes if its operator has said so.
	Diagnostic bool
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
	// AskedStream means that stream is true. The messages of such a request need not be
	// JSON, if it is long.
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
	h := healer{Reader: jsonspan.Reader{Data: body}, tools: tools, checks: true}
	if !h.mayMark(body, len(body)/256) {
		if len(body) >= minGlance {
			if healed, ok := glance(body); ok {
				return body, healed
			}
		}
		h.clean, h.checks = true, false
	}
	ok := h.body()
	if h.checks && !(ok && (h.out == nil || h.isValid())) { // nothing may be cut
		h = healer{Reader: jsonspan.Reader{Data: body}, clean: true}
		ok = h.body()
	}
	if !ok {
		return body, Healed{}
	}
	if h.mayBeCards && h.isValid() {
		if joined, n := joinCards(body, h.out); n > 0 { // a line, and a fence, may go on in the next text
			h = healer{Reader: jsonspan.Reader{Data: joined}, tools: tools, out: joined[:0], inPlace: true}
			h.body()
			if h.healed.Cards = n; h.loneSurrogate {
				joined, _ = joinCards(body, joined)
			}
			body = joined
		}
	}
	if h.loneSurrogate || h.healed.Markers == 0 {
		h.healed.Markers = 0
		return body, h.healed
	}
	return append(h.out, body[h.at:]...), h.healed
}

// healer walks once over the body of a request. It reads what content can be in, and
// skips everything else, or checks it, too, if it may cut something.
//
// It does not use jsonspan.Members and Elements. They skip a value before the caller sees
// it, so that the messages, nearly all of a body, would be scanned once for each level.
type healer struct {
	jsonspan.Reader
	tools   *marker.Table
	clean   bool        // no text has a marker
	checks  bool        // all values are checked, not skipped
	utf8    int         // Data[:utf8] has been checked to be UTF-8
	notUTF8 bool        // and is not
	line    marker.Line // room to read a marker line
	healed  Healed

	messageState
	likeness
	before int // where the element before the message ends, 0 if none is left

	room [6 * len("hermes_notification_category")]byte // to decode a name

	out           []byte // the healed body so far, nil before the first cut
	at            int    // Data[:at] is in out, without the cuts
	inPlace       bool   // out has the memory of Data
	mayBeCards    bool   // an assistant's message has tool calls that may be cards
	loneSurrogate bool   // a marker has a lone surrogate, which no text can have contained
}

// messageState is what has been read of the current message.
type messageState struct {
	start     jsonspan.Reader // at the message
	texts     []jsonspan.Span // insides of the strings in the content that may have markers
	lastTick  int             // no marker begins behind it
	calls     jsonspan.Span   // the tool calls
	assistant bool            // the role is the assistant's, as far as is known
	said      bool            // a content has come
	missed    bool            // a text has not been looked through, because of the role
	again     bool            // all texts are
	left      bool            // there is more in the message than marker lines
	cuts      bool            // some of it has been cut
	kept      int             // the length of out before that
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
		if !ok {
			return h.AtEnd()
		}
		switch name := h.name(key); string(name) {
		case "messages":
			h.messages()
		case "stream":
			h.healed.Asked = h.stream()
		default:
			h.other(name)
		}
	}
}

// value moves behind the value at Pos, and returns where that is.
func (h *healer) value() jsonspan.Span {
	if h.checks {
		return h.Value()
	}
	return h.Skip()
}

// stream reads the value of the member stream.
func (h *healer) stream() Asked {
	switch string(h.value().Of(h.Data)) {
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
		h.value()
		return
	}
	h.before = 0
	for h.Open(); h.Element(); {
		if h.At('{') {
			h.message()
		} else {
			h.value()
			h.before = h.Pos
			h.forget()
		}
	}
	h.forget()
}

// message walks over a message, and over those behind it that are like it.
func (h *healer) message() {
	h.start = h.Reader
	h.begin()
	h.members()
	if h.ended = h.Pos; !h.said {
		h.forget()
	}
	h.end(h.Pos)
}

// begin forgets the message before.
func (h *healer) begin() {
	if h.texts = h.texts[:0]; cap(h.texts) > manyTexts {
		h.texts = nil
	}
	h.calls = jsonspan.Span{}
	h.assistant, h.said, h.missed, h.again, h.left, h.cuts = false, false, false, false, false, false
}

// end heals the message that has been read, and ends at to, if it is the assistant's. If
// the role came behind the content, it walks over the message once more: most texts are
// not the assistant's, and none is looked through that need not be.
func (h *healer) end(to int) {
	if !h.assistant {
		h.before = to
		return
	}
	if h.missed {
		behind := h.Reader
		h.Reader, h.texts, h.again = h.start, h.texts[:0], true
		h.members()
		h.Reader = behind
	}
	h.mayBeCards = h.mayBeCards || h.calls.Ok() && mayBeCards(h.calls.Of(h.Data))
	for _, t := range h.texts {
		h.healText(t)
	}
	if h.cuts && !h.left && !outputAt(h.Data, to) {
		h.leave(to)
	} else {
		h.before = to
	}
}

// members walks over the members of a message.
func (h *healer) members() {
	for h.Open(); ; {
		key, ok := h.Member()
		if !ok {
			return
		}
		switch string(h.name(key)) {
		case "role":
			if h.said {
				h.forget()
			}
			h.assistant = h.string("assistant")
		case "content":
			if h.At('"') {
				h.contents()
			} else {
				h.forget()
				h.content()
			}
		case "tool_calls":
			h.forget()
			h.calls = h.value()
			h.left = h.left || chunk.Filled(h.calls.Of(h.Data))
		case "name", "id":
			h.value()
		default:
			if chunk.Filled(h.value().Of(h.Data)) {
				h.forget()
				h.left = true
			}
		}
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
			h.left = chunk.Filled(h.value().Of(h.Data)) || h.left
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
		switch string(h.name(key)) {
		case "type":
			isText = h.string("text")
		case "text":
			h.text()
		default:
			h.value()
		}
	}
	if !isText {
		h.texts, h.left = h.texts[:n], true
	}
}

// text adds the value to h.texts if it is a string that may have a marker.
func (h *healer) text() {
	v, unicode, tick := jsonspan.Span{}, true, 0
	if h.checks && h.At('"') {
		h.isUTF8(h.Pos)
		v, unicode, tick = h.Text()
		h.utf8 = max(h.utf8, h.Pos)
	} else {
		v = h.value()
	}
	switch {
	case h.clean:
	case !v.IsString(h.Data):
		h.left = h.left || chunk.Filled(v.Of(h.Data))
	case !h.assistant && !h.again:
		h.missed = true
	default:
		in := v.Inner().Of(h.Data)
		// Text tells of every backtick that such an emoji may follow.
		told := h.checks && !h.tools.BeginsInASCII()
		if unicode && mayEscapeTick(in, len(in)) || !told && h.nextMark(in, 0) >= 0 {
			tick = v.To
		}
		if tick > 0 {
			h.texts, h.lastTick = append(h.texts, v.Inner()), tick
		} else {
			h.left = h.left || jsonspan.HasText(in)
		}
	}
}

// isValid reports whether the body, which has been read to its end, is JSON in UTF-8.
func (h *healer) isValid() bool {
	return h.isUTF8(len(h.Data)) && (h.checks || jsonspan.Valid(h.Data))
}

// isUTF8 reports whether the body is UTF-8 up to the index to, where a rune begins. No
// text is read twice: those that Text has read, and what has been read before between two
// texts, is.
func (h *healer) isUTF8(to int) bool {
	if h.utf8 < to {
		h.notUTF8 = h.notUTF8 || !jsonspan.ValidUTF8(h.Data[h.utf8:to])
		h.utf8 = to
	}
	return !h.notUTF8
}

// string reports whether the value is the string want.
func (h *healer) string(want string) bool { return spells(h.Data, h.value(), want) }

// name returns the text of s, the inside of a JSON string, if it may be one of the names
// that Heal knows, and anything else if not. An escape is six bytes for a letter.
func (h *healer) name(s jsonspan.Span) []byte {
	raw := s.Of(h.Data)
	if len(raw) < len(`\u006e`) || len(raw) > 6*len("hermes_notification_category") || bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return jsonspan.AppendText(h.room[:0], raw)
}

// manyTexts is the number of texts above which their list is not kept for the next
// message.
const manyTexts = 256
