// Package chunk reads and edits the frames of a chat stream. It knows the members of a
// chunk, a tool event or an error, and how to edit them. It does not decide what becomes
// of a frame.
//
//	chunk.go     Chunk: the members of the object in a frame's data, by position
//	object.go    Object: a frame, its Chunk, and the edits that it leaves with
//	redact.go    the secrets in errors and in texts, and the edits that take them out
//	failure.go   Hermes' own texts about a failed agent
//
// Steps that may make many edits are first, one after the other: each makes its edits and parses
// the frame again, so that none depends on the edits of another. Positions are those in the frame
// as last parsed. Between two frames, an Object holds only buffers.
package chunk

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Chunk is the JSON object in a frame's data: a chat.completion.chunk, a tool event, an
// error or something else. It has the values of members by position in the data. A name
// counts as what it means, with or without escapes. If a member is there twice, the last
// one counts, as it does for clients; of errors, the last one that says something.
type Chunk struct {
	All jsonspan.Span // the object

	ID, Object, Created, Model jsonspan.Span
	Choices                    jsonspan.Span
	Usage, Err, Hermes         jsonspan.Span
	Tool, Emoji, Label         jsonspan.Span
	CallID, Status, StatusLine jsonspan.Span

	Tokens     Usage // what Usage counts
	Extra      bool  // there is a member that not every chunk has
	MoreErrors bool  // there may be an error or hermes block that is neither Err nor Hermes
	Escaped    bool  // the name of a member that a tool event has is written with an escape
	choices
}

// choices describes the choices of a chunk. If there are several, Spans are those of the last one,
// and what a bool says holds for any of them unless it says otherwise.
type choices struct {
	ChoicesArray bool          // Choices is an array
	Count        int           // the number of choices
	FirstOnly    bool          // there is one choice, with index 0 or without an index
	Delta        jsonspan.Span // the delta, if it is an object
	OnlyText     bool          // the delta has no member but one content and the role
	HasRole      bool          // the delta has a role
	Content      jsonspan.Span // the value of delta.content, if it is a string
	ContentKey   jsonspan.Span // the name of that member, without its quotes
	Repeat       jsonspan.Span // the value of the choice's text, if it repeats the content
	Finish       jsonspan.Span // the value of finish_reason, if it is a string and not empty
	ChoiceErrors bool          // there may be an error in a choice
	More         bool          // there is a member that not every choice has
	Role         jsonspan.Span // the value of delta.role, if it is a string
	Reasoning    bool          // there is a non-space character in reasoning_content or reasoning
	Text         bool          // there is a non-space character in the content of a choice
	Other        bool          // there is something in a member that is not text
	Calls        bool          // such a member is a call or a refusal, which waits for no text

	// The choices that are in this chunk and those that finish in it, as bits.
	Begun, Ended uint64
	ManyChoices  bool // there is an index other than 0
}

// memberNames are the names of the members that Parse looks for.
var memberNames = []string{
	"id", "object", "created", "model", "choices", "usage", "error", "hermes",
	"tool", "emoji", "label", "toolCallId", "status", "event",
}

// Parse finds the members of the object in data. If data is not an object or not well formed, it
// returns false, and finds only the first members. If data is the beginning of an object, a value
// that ends with All may have been cut.
func (c *Chunk) Parse(data []byte) bool {
	*c = Chunk{All: objectIn(data)}
	members := [...]*jsonspan.Span{
		&c.ID, &c.Object, &c.Created, &c.Model, &c.Choices, &c.Usage, &c.Err, &c.Hermes,
		&c.Tool, &c.Emoji, &c.Label, &c.CallID, &c.Status, &c.StatusLine,
	}
	for name, value := range jsonspan.Members(data, c.All) {
		i := slices.Index(memberNames, string(nameOf(data, name)))
		if i < 0 {
			c.Extra = true
			continue
		}
		switch at := members[i]; at {
		case &c.Choices:
			c.readChoices(data, value)
			fallthrough
		case &c.Err, &c.Hermes:
			c.MoreErrors = c.MoreErrors || at.Ok()
		case &c.Usage:
			c.Tokens = readUsage(data, value)
		case &c.StatusLine:
			c.Extra = true
		case &c.Tool, &c.Emoji, &c.Label, &c.CallID, &c.Status:
			c.Escaped = c.Escaped || bytes.IndexByte(name.Of(data), '\\') >= 0
		}
		if members[i] != &c.Err || !isEmpty(value.Of(data)) || isEmpty(c.Err.Of(data)) {
			*members[i] = value
		}
	}
	return c.All.IsObject(data) && jsonspan.Valid(data)
}

// objectIn returns the position of the object that data consists of.
func objectIn(data []byte) jsonspan.Span {
	return jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(bytes.TrimRight(data, " \t\r\n"))}
}

// nameOf returns the name of a member without escapes.
func nameOf(data []byte, name jsonspan.Span) []byte {
	if b := name.Of(data); bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	return jsonspan.AppendText(nil, name.Of(data))
}

// IsDone reports whether data is the [DONE] that ends a chat stream. Only JSON's white
// space may stand in front of it.
func IsDone(data []byte) bool {
	data = data[jsonspan.SkipSpace(data, 0):]
	return bytes.HasPrefix(data, []byte("[DONE]")) && len(bytes.TrimSpace(data)) == len("[DONE]")
}

// ShownFinish returns the finish reason that stands in data, the text of a frame that is not examined or
// of which only a part is there, or ""  if there is none. In a JSON string it would have escapes.
func ShownFinish(data []byte) string {
	if m := shownFinish.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

var shownFinish = regexp.MustCompile(`"finish_reason"[ \t\r\n]{0,8}:[ \t\r\n]{0,8}"([^"\\]{1,64})"`)

// MaxShownFinish is the length in bytes of the longest text in which ShownFinish finds a reason.
const MaxShownFinish = len(`"finish_reason":""`) + 2*8 + 4*64

// ParseBeginning parses b, the beginning of a large frame, into f. The name of the event counts
// only if its line is complete.
func ParseBeginning(f *sse.Frame, b []byte) {
	f.Parse(b)
	if _, end := f.EventLine(); end == len(b) && !bytes.HasSuffix(b, []byte("\n")) && !bytes.HasSuffix(b, []byte("\r")) {
		f.Event = nil // it may go on
	}
}

// IsNamed reports whether a frame is a named event. All events without a name have the
// name message.
func IsNamed(f *sse.Frame) bool { return len(f.Event) > 0 && string(f.Event) != "message" }

// NumberAt returns the JSON number at v, or nil if the value does not begin with a digit.
func NumberAt(data []byte, v jsonspan.Span) []byte {
	if b := v.Of(data); len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		return b
	}
	return nil
}

// IsChunk reports whether the object says that it is a chat.completion.chunk.
func (c *Chunk) IsChunk(data []byte) bool {
	return c.Object.Is(data, `"chat.completion.chunk"`)
}

// IsToolEvent reports whether the object has the members of a tool event.
func (c *Chunk) IsToolEvent(data []byte) bool {
	return c.Tool.IsString(data) && (c.CallID.IsString(data) || c.Label.Ok() || c.Status.IsString(data))
}

// TellsTool reports whether an object in an event with the name of tool events says
// anything of a tool, whatever the types of its other members.
func (c *Chunk) TellsTool(data []byte) bool {
	return c.Tool.IsString(data) || c.CallID.IsString(data) || c.Label.IsString(data) || c.Status.IsString(data)
}

// HasContent reports whether the chunk has content of the first choice, and no other
// choice.
func (c *Chunk) HasContent() bool { return c.Content.Ok() && c.FirstOnly }

// readChoices reads the choices at v, which may be no array.
func (c *Chunk) readChoices(data []byte, v jsonspan.Span) {
	c.choices = choices{ChoicesArray: v.Ok() && data[v.From] == '['}
	for choice := range jsonspan.Elements(data, v) {
		if c.Count++; choice.IsObject(data) {
			c.readChoice(data, choice)
		}
	}
}

func (c *Chunk) readChoice(data []byte, choice jsonspan.Span) {
	var index int64
	var twice bool
	var delta, finish, text jsonspan.Span
	for name, value := range jsonspan.Members(data, choice) {
		switch string(nameOf(data, name)) {
		case "index":
			index = jsonspan.SmallInt(value.Of(data))
		case "delta":
			twice, delta = delta.Ok(), value
		case "finish_reason":
			finish = value
		case "text": // some providers repeat the content there
			text = value
		default:
			c.More = c.More || !value.Is(data, "null")
			c.ChoiceErrors = c.ChoiceErrors || SaysError(name.Of(data))
		}
	}
	c.readDelta(data, delta)
	c.OnlyText = c.OnlyText && !twice
	c.Repeat = jsonspan.Span{}
	if text.IsString(data) && c.Content.Ok() && bytes.Equal(text.Of(data), c.Content.Of(data)) {
		c.Repeat = text
	}
	c.More = c.More || !c.Repeat.Ok() && Filled(text.Of(data))
	bit := uint64(1) << uint64(index) // 0 beyond the 64th choice, and those end with the others
	c.Begun |= bit
	c.ManyChoices = c.ManyChoices || index != 0
	if finish.IsString(data) && finish.To-finish.From > 2 { // some providers send ""
		c.Finish = finish
		c.Ended |= bit
	}
	c.FirstOnly = c.Count == 1 && index == 0
}

// readDelta reads the delta of a choice, which may be no object.
func (c *Chunk) readDelta(data []byte, delta jsonspan.Span) {
	c.Content, c.Role, c.OnlyText, c.HasRole = jsonspan.Span{}, jsonspan.Span{}, false, false
	if !delta.IsObject(data) {
		return
	}
	c.Delta, c.OnlyText = delta, true
	var content jsonspan.Span
	for name, value := range jsonspan.Members(data, delta) {
		isString, filled := value.IsString(data), Filled(value.Of(data))
		switch string(nameOf(data, name)) {
		case "content":
			c.OnlyText = c.OnlyText && isString && !content.Ok()
			c.ContentKey, content = name, value // of several, the last one counts
		case "reasoning_content", "reasoning":
			c.OnlyText = false
			c.Reasoning = c.Reasoning || isString && jsonspan.HasText(value.Inner().Of(data))
		case "role":
			c.HasRole = true
			if isString && value.To-value.From < MaxEnvelope {
				c.Role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.Calls = c.Calls || filled
			fallthrough
		default:
			c.OnlyText = false
			c.Other = c.Other || filled
		}
	}
	if content.IsString(data) {
		c.Content = content
		c.Text = c.Text || jsonspan.HasText(content.Inner().Of(data))
	} else {
		c.Other = c.Other || Filled(content.Of(data))
	}
}

// isEmpty reports whether value is absent, null, false or empty, so that it is no error.
func isEmpty(value []byte) bool {
	return slices.Contains([]string{"", "null", "false", `""`, "{}", "[]"}, string(value))
}

// Filled reports whether a value says anything to the client: it is a string, an
// array or an object that is not empty. Numbers do not, because they are about the text,
// such as the id of a token.
func Filled(value []byte) bool {
	return !isEmpty(value) && strings.IndexByte(`"[{`, value[0]) >= 0
}

// Usage is the usage of tokens that a chunk or an answer reports.
type Usage struct {
	Reported      bool  // it has prompt_tokens, completion_tokens or total_tokens
	Zero          bool  // it has all three, and they are 0
	Counts        bool  // one of them is positive
	Input, Output int64 // prompt_tokens and completion_tokens
}

// readUsage reads the usage at v, which may be no object.
func readUsage(data []byte, v jsonspan.Span) Usage {
	u := Usage{Zero: true}
	count := func(name string) int64 {
		n := jsonspan.MemberOf(data, v, name)
		u.Reported = u.Reported || n.Ok()
		u.Zero = u.Zero && n.Is(data, "0")
		u.Counts = u.Counts || n.Ok() && data[n.From] >= '1' && data[n.From] <= '9'
		return max(0, jsonspan.SmallInt(n.Of(data)))
	}
	u.Input, u.Output = count("prompt_tokens"), count("completion_tokens")
	count("total_tokens")
	return u
}
