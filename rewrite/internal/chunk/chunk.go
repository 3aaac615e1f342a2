package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Chunk is the JSON object in a frame's data: a chat.completion.chunk, a tool event, an
// error or something else. It has the values of members by position in the data. A name
// counts as what it means, with or without escapes. If a member is there twice, the last
// one counts, as it does for clients; of errors, the last one that says something.
type Chunk struct {
	Open, Shut int // where the object's braces are

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

// choices is what the choices of a chunk say. If there are several, Spans are those of
// the last one, and what a bool says holds for any of them unless it says otherwise.
type choices struct {
	ChoicesArray    bool          // Choices is an array
	Count           int           // the number of choices
	FirstOnly       bool          // there is one choice, with index 0 or without an index
	Delta           jsonspan.Span // the delta, if it is an object
	Content         jsonspan.Span // the value of delta.content, if it is a string
	ContentKey      jsonspan.Span // the name of that member, without its quotes
	Repeat          jsonspan.Span // the value of the choice's text, if it repeats the content
	Finish          jsonspan.Span // the value of finish_reason, if it is a string and not empty
	OnlyContent     bool          // the last delta has no member but content
	OnlyContentRole bool          // the last delta has no members but content and role
	ReasoningValue  jsonspan.Span // the value of the last member with reasoning, if it is a string
	ReasoningCount  int           // the number of such members
	ChoiceErrors    bool          // there may be an error in a choice
	More            bool          // there is a member that not every choice has
	Role            jsonspan.Span // the value of delta.role, if it is a string
	speech

	// The choices that are in this chunk and those that finish in it, as bits.
	Begun, Ended uint64
	ManyChoices  bool // there is an index other than 0
}

// speech is what the deltas of a chunk say.
type speech struct {
	Reasoning bool // there is a non-space character in reasoning_content or reasoning
	Text      bool // there is a non-space character in the content of a choice
	Other     bool // there is something in a member that is not text
	Calls     bool // that is a call or a refusal, which waits for no text
}

// Parse finds the members of the object in data. It returns false if data is not an
// object or not well formed.
func (c *Chunk) Parse(data []byte) bool {
	r := jsonspan.Reader{Data: data, Pos: jsonspan.SkipSpace(data, 0)}
	if !r.At('{') {
		return false
	}
	*c = Chunk{Open: r.Pos}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		key := r.Name(name)
		switch string(key) {
		case "id":
			c.ID = r.Value()
		case "object":
			c.Object = r.Value()
		case "created":
			c.Created = r.Value()
		case "model":
			c.Model = r.Value()
		case "choices":
			c.MoreErrors = c.MoreErrors || c.Choices.Ok()
			c.Choices = c.readChoices(&r)
		case "usage":
			c.Usage = c.readUsage(&r)
		case "error":
			c.MoreErrors = c.MoreErrors || c.Err.Ok()
			if v := r.Value(); !c.Err.Ok() || saysSomething(v.Of(data)) || !saysSomething(c.Err.Of(data)) {
				c.Err = v
			}
		case "hermes":
			c.MoreErrors = c.MoreErrors || c.Hermes.Ok()
			c.Hermes = r.Value()
		case "tool", "emoji", "label", "toolCallId", "status":
			c.Escaped = c.Escaped || len(key) < name.To-name.From
			*c.toolMember(string(key)) = r.Value()
		case "event":
			c.StatusLine = r.Value()
			c.Extra = true
		default:
			r.Value()
			c.Extra = true
		}
	}
	c.Shut = r.Pos - 1
	return r.AtEnd()
}

// toolMember returns where the value of the tool event's member with the name is kept.
func (c *Chunk) toolMember(name string) *jsonspan.Span {
	switch name {
	case "tool":
		return &c.Tool
	case "emoji":
		return &c.Emoji
	case "label":
		return &c.Label
	case "toolCallId":
		return &c.CallID
	}
	return &c.Status
}

// saysSomething reports whether the value of an error is more than a place for one.
func saysSomething(value []byte) bool {
	switch string(value) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
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

// readChoices reads the choices and returns where they are.
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
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		switch string(r.Name(name)) {
		case "index":
			index = jsonspan.SmallInt(r.Value().Of(r.Data))
		case "delta":
			c.speech = before // the last of several deltas counts
			c.Content, c.Role, c.OnlyContent, c.OnlyContentRole = jsonspan.Span{}, jsonspan.Span{}, false, false
			c.readDelta(r)
		case "finish_reason":
			finish = r.Value()
		case "text": // some providers repeat the content there
			text = r.Value()
		default:
			c.More = !r.Value().Is(r.Data, "null") || c.More
			c.ChoiceErrors = c.ChoiceErrors || SaysError(name.Of(r.Data))
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

// bit returns the bit of the choice i, or 0 for those beyond the 64th, which end with
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
	c.OnlyContent = !c.Delta.Ok() // a content of the delta before it stays: TestContentThatIsThereTwice
	c.OnlyContentRole = c.OnlyContent
	before := c.Text
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		value := r.Value()
		switch string(r.Name(name)) {
		case "content":
			if c.Content.Ok() {
				c.OnlyContent, c.OnlyContentRole = false, false
			}
			c.ContentKey, c.Content, c.Text = name, jsonspan.Span{}, before
			if value.IsString(r.Data) {
				c.Content, c.Text = value, before || jsonspan.HasText(value.Inner().Of(r.Data))
				continue
			}
			c.OnlyContent, c.OnlyContentRole = false, false
			c.Other = c.Other || Filled(value.Of(r.Data))
		case "reasoning_content", "reasoning":
			c.OnlyContent, c.OnlyContentRole = false, false
			if value.IsString(r.Data) {
				c.ReasoningValue = value
				c.ReasoningCount++
				c.Reasoning = c.Reasoning || jsonspan.HasText(value.Inner().Of(r.Data))
			}
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

// Filled reports whether a value says anything to the client: it is a string, an
// array or an object that is not empty. Numbers do not, because they are about the text,
// such as the id of a token.
func Filled(value []byte) bool {
	switch string(value) {
	case `""`, "[]", "{}":
		return false
	}
	return len(value) > 0 && (value[0] == '"' || value[0] == '[' || value[0] == '{')
}

// Usage is what a chunk or an answer says of tokens.
type Usage struct {
	Reported      bool  // it has prompt_tokens, completion_tokens or total_tokens
	Zero          bool  // it has all three, and they are 0
	Counts        bool  // one of them is positive
	Input, Output int64 // prompt_tokens and completion_tokens
}

// readUsage reads the usage and returns where it is.
func (c *Chunk) readUsage(r *jsonspan.Reader) jsonspan.Span {
	c.Tokens = Usage{}
	if !r.At('{') {
		return r.Value()
	}
	from, u := r.Pos, &c.Tokens
	var n, zeros int
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		value := r.Value()
		count := max(0, jsonspan.SmallInt(value.Of(r.Data)))
		switch string(r.Name(name)) {
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
