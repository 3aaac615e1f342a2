package chunk

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Chunk is the JSON object in a frame's data: a chat.completion.chunk, a tool event, an
// error or something else. Its members are kept by position in the data; of members
// that stand there twice the last counts, as it does for clients.
type Chunk struct {
	Open, Shut int // where the object's braces are

	ID, Object, Created, Model jsonspan.Span
	Choices                    jsonspan.Span
	Usage, Err, Hermes         jsonspan.Span
	Tool, Emoji, Label         jsonspan.Span
	CallID, Status, StatusLine jsonspan.Span

	Tokens     Usage // what Usage counts
	Fault      Fault // what Err and Hermes say
	Extra      bool  // a member that not every chunk has
	MoreErrors bool  // an error, or a hermes block, may stand in it that is neither Err nor Hermes
	choices
}

// choices is what the choices of a chunk say, taken together.
type choices struct {
	ChoicesArray    bool          // Choices is an array
	Count           int           // how many choices there are
	FirstOnly       bool          // the only choice has index 0, or none
	Delta           jsonspan.Span // the last one's
	Content         jsonspan.Span // the value of delta.content, if it is a string
	ContentKey      jsonspan.Span // the name of that member, without its quotes
	Repeat          jsonspan.Span // the value of the choice's text, if it repeats the content
	Finish          jsonspan.Span // the value of finish_reason, if it gives one
	OnlyContent     bool          // delta has no member but content
	OnlyContentRole bool          // delta has no member but content and role
	ReasoningValue  jsonspan.Span // the value of the last member with reasoning, if it is a string
	ReasoningCount  int           // how many of them there are
	ChoiceErrors    bool          // a choice may have an error of its own
	More            bool          // the choice has a member that not every choice has
	Role            jsonspan.Span // the value of delta.role, if it is a string
	speech

	Begun, Ended uint64 // the choices that say something in this chunk and that finish in it, as bits
	ManyChoices  bool   // there is one whose index is not 0
}

// speech is what the deltas of a chunk say.
type speech struct {
	Reasoning bool // a non-space character in reasoning_content or reasoning
	Text      bool // a non-space character in the content of any choice
	Other     bool // a delta has a member with something in it that is no text
	Calls     bool // that is one of the API's: a call or a refusal
}

// Parse finds the members of data. It returns false if data is no object, or is not
// well formed.
func (c *Chunk) Parse(data []byte) bool {
	r := jsonspan.Reader{Data: data, Pos: jsonspan.SkipSpace(data, 0)}
	if !r.At('{') {
		return false
	}
	*c = Chunk{Open: r.Pos}
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		c.member(&r, string(name.Of(data)))
	}
	c.Shut = r.Pos - 1
	return r.AtEnd()
}

// member reads the value of the member with the name.
func (c *Chunk) member(r *jsonspan.Reader, name string) {
	switch name {
	case "id":
		c.ID = r.Value()
	case "object":
		c.Object = r.Value()
	case "created":
		c.Created = r.Value()
	case "model":
		c.Model = r.Value()
	case "choices":
		c.Choices = c.readChoices(r)
	case "usage":
		c.Usage = c.readUsage(r)
	case "error":
		c.MoreErrors = c.MoreErrors || c.Err.Ok()
		c.Err = c.Fault.read(r, false)
	case "hermes":
		c.MoreErrors = c.MoreErrors || c.Hermes.Ok()
		c.Hermes = c.Fault.read(r, true)
	case "tool":
		c.Tool = r.Value()
	case "emoji":
		c.Emoji = r.Value()
	case "label":
		c.Label = r.Value()
	case "toolCallId":
		c.CallID = r.Value()
	case "status":
		c.Status = r.Value()
	case "event":
		c.StatusLine = r.Value()
		c.Extra = true
	default:
		r.Value()
		c.Extra, c.MoreErrors = true, c.MoreErrors || strings.IndexByte(name, '\\') >= 0
	}
}

// IsChunk reports whether the object says that it is a chat.completion.chunk.
func (c *Chunk) IsChunk(data []byte) bool {
	return c.Object.Is(data, `"chat.completion.chunk"`)
}

// IsToolEvent reports whether the object has the members of a tool event.
func (c *Chunk) IsToolEvent(data []byte) bool {
	return c.Tool.IsString(data) && (c.CallID.IsString(data) || c.Label.Ok() || c.Status.IsString(data))
}

// TellsTool reports whether an event of a tool's name says anything of a tool, whatever
// the types of its other members are.
func (c *Chunk) TellsTool(data []byte) bool {
	return c.Tool.IsString(data) || c.CallID.IsString(data) || c.Label.IsString(data) || c.Status.IsString(data)
}

func (c *Chunk) readChoices(r *jsonspan.Reader) jsonspan.Span {
	c.choices = choices{}
	if !r.At('[') {
		return r.Value()
	}
	c.ChoicesArray = true
	from := r.Pos
	for r.Open(); r.Element(); {
		c.readChoice(r)
	}
	return jsonspan.Span{From: from, To: r.Pos}
}

func (c *Chunk) readChoice(r *jsonspan.Reader) {
	c.Count++
	if !r.At('{') {
		r.Value()
		return
	}
	var index int64
	var finish, text jsonspan.Span
	before := c.speech
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		switch string(name.Of(r.Data)) {
		case "index":
			index = jsonspan.SmallInt(r.Value().Of(r.Data))
		case "delta":
			c.speech = before // of two the last counts
			c.Content, c.Role, c.OnlyContent, c.OnlyContentRole = jsonspan.Span{}, jsonspan.Span{}, false, false
			c.readDelta(r)
		case "finish_reason":
			finish = r.Value()
		case "text": // some providers say all twice
			text = r.Value()
		default:
			c.More = !r.Value().Is(r.Data, "null") || c.More
			c.ChoiceErrors = c.ChoiceErrors || string(name.Of(r.Data)) == "error" || bytes.IndexByte(name.Of(r.Data), '\\') >= 0
		}
	}
	c.Repeat = jsonspan.Span{}
	if text.IsString(r.Data) && c.Content.Ok() && bytes.Equal(text.Of(r.Data), c.Content.Of(r.Data)) {
		c.Repeat = text
	}
	c.More = c.More || text.Ok() && !c.Repeat.Ok() && Filled(text.Of(r.Data))
	c.Begun |= bit(index)
	c.ManyChoices = c.ManyChoices || index != 0
	if finish.IsString(r.Data) && finish.To-finish.From > 2 { // some providers send ""
		c.Finish = finish
		c.Ended |= bit(index)
	}
	c.FirstOnly = c.Count == 1 && index == 0
}

// bit returns the bit of the choice i. Those beyond the 64th are taken to end with
// the others.
func bit(i int64) uint64 {
	if i < 0 || i > 63 {
		return 0
	}
	return 1 << i
}

func (c *Chunk) readDelta(r *jsonspan.Reader) {
	from := r.Pos
	if !r.At('{') {
		r.Value()
		return
	}
	c.OnlyContent, c.OnlyContentRole = true, true
	before := c.Text
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		value := r.Value()
		switch string(name.Of(r.Data)) {
		case "content":
			c.ContentKey, c.Text = name, before
			c.readContent(r.Data, value)
		case "reasoning_content", "reasoning":
			c.OnlyContent, c.OnlyContentRole = false, false
			c.readReasoning(r.Data, value)
		case "role":
			c.OnlyContent = false
			if value.IsString(r.Data) && value.To-value.From < MaxEnvelope {
				c.Role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.OnlyContent, c.OnlyContentRole = false, false
			c.Calls = c.Calls || Filled(value.Of(r.Data))
			c.Other = c.Other || c.Calls
		default:
			c.OnlyContent, c.OnlyContentRole = false, false
			c.Other = c.Other || Filled(value.Of(r.Data))
		}
	}
	c.Delta = jsonspan.Span{From: from, To: r.Pos}
}

func (c *Chunk) readContent(data []byte, value jsonspan.Span) {
	if c.Content = (jsonspan.Span{}); !value.IsString(data) {
		c.OnlyContent, c.OnlyContentRole = false, false
		c.Other = c.Other || Filled(value.Of(data))
		return
	}
	c.Content = value
	c.Text = c.Text || jsonspan.HasText(value.Inner().Of(data))
}

func (c *Chunk) readReasoning(data []byte, value jsonspan.Span) {
	if !value.IsString(data) {
		return
	}
	c.ReasoningValue = value
	c.ReasoningCount++
	c.Reasoning = c.Reasoning || jsonspan.HasText(value.Inner().Of(data))
}

// Filled reports whether a value says anything to the client: it is a string, an
// array or an object, and not an empty one. Numbers are about the text, such as
// a token's.
func Filled(value []byte) bool {
	switch string(value) {
	case `""`, "[]", "{}":
		return false
	}
	return len(value) > 0 && (value[0] == '"' || value[0] == '[' || value[0] == '{')
}

// Usage is what a chunk or an answer says of tokens.
type Usage struct {
	Reported      bool // it has one of the three members
	Zero          bool // it is 0/0/0
	Counts        bool // it counts a token
	Input, Output int64
}

func (c *Chunk) readUsage(r *jsonspan.Reader) jsonspan.Span {
	c.Tokens = Usage{}
	if !r.At('{') {
		return r.Value()
	}
	from, u := r.Pos, &c.Tokens
	var n, zeros int
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		value := r.Value()
		count := max(0, jsonspan.SmallInt(value.Of(r.Data)))
		switch string(name.Of(r.Data)) {
		case "prompt_tokens":
			u.Input = count
		case "completion_tokens":
			u.Output = count
		case "total_tokens":
		default:
			continue
		}
		n++
		switch {
		case value.Is(r.Data, "0"):
			zeros++
		case value.Ok() && r.Data[value.From] >= '1' && r.Data[value.From] <= '9':
			u.Counts = true
		}
	}
	u.Reported, u.Zero = n > 0, zeros == 3 && n == 3
	return jsonspan.Span{From: from, To: r.Pos}
}

// Move moves what stands behind the index i of the data by n bytes.
func (c *Chunk) Move(i, n int) {
	c.Shut += n
	for _, v := range [...]*jsonspan.Span{
		&c.ID, &c.Object, &c.Created, &c.Model, &c.Choices, &c.Usage, &c.Err, &c.Tool, &c.Emoji, &c.Label, &c.CallID,
		&c.Status, &c.StatusLine, &c.Delta, &c.Content, &c.ContentKey, &c.ReasoningValue, &c.Role,
	} {
		if v.From > i {
			v.From += n
		}
		if v.To > i {
			v.To += n
		}
	}
}
