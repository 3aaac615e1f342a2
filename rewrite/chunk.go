package rewrite

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// chunk is the JSON object in a frame's data: a chat.completion.chunk, a tool
// event, an error or something else. Its members are kept by position in data;
// of members that stand there twice the last counts, as it does for clients.
type chunk struct {
	open, shut int // where the object's braces are

	id, object, created, model jsonspan.Span
	choices                    jsonspan.Span
	usage, err, hermes         jsonspan.Span
	tool, emoji, label         jsonspan.Span
	callID, status, statusLine jsonspan.Span

	tokens usage // what the usage counts
	fault  fault // what the error says, and the hermes block of it
	extra  bool  // a member that not every chunk has
	twins  bool  // an error, or a hermes block, may stand in it that is none of the two
	inChoices
}

// inChoices is what the choices of a chunk say, taken together.
type inChoices struct {
	list       bool // choices is an array
	count      int  // how many choices there are
	index      bool // the only choice has index 0, or none
	delta      jsonspan.Span
	content    jsonspan.Span // the value of delta.content, when it is a string
	contentKey jsonspan.Span // the name of that member, without its quotes
	repeat     jsonspan.Span // the value of the choice's text, when it repeats the content
	finish     jsonspan.Span // the value of finish_reason, when it gives one
	alone      bool          // delta has no member but content
	bare       bool          // delta has no member but content and role
	thought    jsonspan.Span // the value of the last member with reasoning, when it is a string
	thoughts   int           // how many there are
	errors     bool          // a choice may have an error of its own
	more       bool          // the choice has a member that not every choice has
	role       jsonspan.Span // the value of delta.role, when it is a string
	speech

	begun, ended uint64 // the choices that say something in this chunk and that finish in it, as bits
	further      bool   // there is one whose index is not 0
}

// speech is what the deltas of a chunk say.
type speech struct {
	reasoning bool // a non-space character in reasoning_content or reasoning
	text      bool // a non-space character in the content of any choice
	other     bool // a delta has a member with something in it that is no text
	acts      bool // that is one of the API's: a call or a refusal
}

// parse finds the members of data. It is false when data is no object, or is not
// well formed: that passes as it is.
func (c *chunk) parse(data []byte) bool {
	r := jsonspan.Reader{Data: data, Pos: jsonspan.SkipSpace(data, 0)}
	if !r.At('{') {
		return false
	}
	*c = chunk{open: r.Pos}
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		c.member(&r, string(name.Of(data)))
	}
	c.shut = r.Pos - 1
	return r.AtEnd()
}

// member reads the value of the member with the name.
func (c *chunk) member(r *jsonspan.Reader, name string) {
	switch name {
	case "id":
		c.id = r.Value()
	case "object":
		c.object = r.Value()
	case "created":
		c.created = r.Value()
	case "model":
		c.model = r.Value()
	case "choices":
		c.choices = c.readChoices(r)
	case "usage":
		c.usage = c.readUsage(r)
	case "error":
		c.twins = c.twins || c.err.Ok()
		c.err = c.fault.read(r, false)
	case "hermes":
		c.twins = c.twins || c.hermes.Ok()
		c.hermes = c.fault.read(r, true)
	case "tool":
		c.tool = r.Value()
	case "emoji":
		c.emoji = r.Value()
	case "label":
		c.label = r.Value()
	case "toolCallId":
		c.callID = r.Value()
	case "status":
		c.status = r.Value()
	case "event":
		c.statusLine = r.Value()
		c.extra = true
	default:
		r.Value()
		c.extra, c.twins = true, c.twins || strings.IndexByte(name, '\\') >= 0
	}
}

// isChunk tells whether the object says that it is a chat.completion.chunk.
func (c *chunk) isChunk(data []byte) bool {
	return c.object.Is(data, `"chat.completion.chunk"`)
}

// isToolEvent tells whether the object has the members of a tool event.
func (c *chunk) isToolEvent(data []byte) bool {
	return c.tool.IsString(data) && (c.callID.IsString(data) || c.label.Ok() || c.status.IsString(data))
}

// tellsTool tells whether an event of a tool's name says anything of a tool, whatever
// the types of its other members are.
func (c *chunk) tellsTool(data []byte) bool {
	return c.tool.IsString(data) || c.callID.IsString(data) || c.label.IsString(data) || c.status.IsString(data)
}

func (c *chunk) readChoices(r *jsonspan.Reader) jsonspan.Span {
	c.inChoices = inChoices{}
	if !r.At('[') {
		return r.Value()
	}
	c.list = true
	from := r.Pos
	for r.Open(); r.Element(); {
		c.readChoice(r)
	}
	return jsonspan.Span{From: from, To: r.Pos}
}

func (c *chunk) readChoice(r *jsonspan.Reader) {
	c.count++
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
			c.content, c.role, c.alone, c.bare = jsonspan.Span{}, jsonspan.Span{}, false, false
			c.readDelta(r)
		case "finish_reason":
			finish = r.Value()
		case "text": // some providers say all twice
			text = r.Value()
		default:
			c.more = !r.Value().Is(r.Data, "null") || c.more
			c.errors = c.errors || string(name.Of(r.Data)) == "error" || bytes.IndexByte(name.Of(r.Data), '\\') >= 0
		}
	}
	c.repeat = jsonspan.Span{}
	if text.IsString(r.Data) && c.content.Ok() && bytes.Equal(text.Of(r.Data), c.content.Of(r.Data)) {
		c.repeat = text
	}
	c.more = c.more || text.Ok() && !c.repeat.Ok() && filled(text.Of(r.Data))
	c.begun |= bit(index)
	c.further = c.further || index != 0
	if finish.IsString(r.Data) && finish.To-finish.From > 2 { // some providers send ""
		c.finish = finish
		c.ended |= bit(index)
	}
	c.index = c.count == 1 && index == 0
}

// bit returns the bit of the choice i. Those beyond the 64th are taken to end with
// the others.
func bit(i int64) uint64 {
	if i < 0 || i > 63 {
		return 0
	}
	return 1 << i
}

func (c *chunk) readDelta(r *jsonspan.Reader) {
	from := r.Pos
	if !r.At('{') {
		r.Value()
		return
	}
	c.alone, c.bare = true, true
	before := c.text
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			break
		}
		value := r.Value()
		switch string(name.Of(r.Data)) {
		case "content":
			c.contentKey, c.text = name, before
			c.readContent(r.Data, value)
		case "reasoning_content", "reasoning":
			c.alone, c.bare = false, false
			c.readThought(r.Data, value)
		case "role":
			c.alone = false
			if value.IsString(r.Data) && value.To-value.From < maxEnvelope {
				c.role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.alone, c.bare = false, false
			c.acts = c.acts || filled(value.Of(r.Data))
			c.other = c.other || c.acts
		default:
			c.alone, c.bare = false, false
			c.other = c.other || filled(value.Of(r.Data))
		}
	}
	c.delta = jsonspan.Span{From: from, To: r.Pos}
}

func (c *chunk) readContent(data []byte, value jsonspan.Span) {
	if c.content = (jsonspan.Span{}); !value.IsString(data) {
		c.alone, c.bare = false, false
		c.other = c.other || filled(value.Of(data))
		return
	}
	c.content = value
	c.text = c.text || jsonspan.HasText(value.Inner().Of(data))
}

func (c *chunk) readThought(data []byte, value jsonspan.Span) {
	if !value.IsString(data) {
		return
	}
	c.thought = value
	c.thoughts++
	c.reasoning = c.reasoning || jsonspan.HasText(value.Inner().Of(data))
}

// filled tells whether a value says anything to the client: it is a string, an
// array or an object, and not an empty one. Numbers are about the text, such as
// a token's.
func filled(value []byte) bool {
	switch string(value) {
	case `""`, "[]", "{}":
		return false
	}
	return len(value) > 0 && (value[0] == '"' || value[0] == '[' || value[0] == '{')
}

// usage is what a chunk or an answer says of tokens.
type usage struct {
	reported      bool // it has one of the three members
	zero          bool // it is 0/0/0
	counts        bool // it counts a token
	input, output int64
}

func (c *chunk) readUsage(r *jsonspan.Reader) jsonspan.Span {
	c.tokens = usage{}
	if !r.At('{') {
		return r.Value()
	}
	from, u := r.Pos, &c.tokens
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
			u.input = count
		case "completion_tokens":
			u.output = count
		case "total_tokens":
		default:
			continue
		}
		n++
		switch {
		case value.Is(r.Data, "0"):
			zeros++
		case value.Ok() && r.Data[value.From] >= '1' && r.Data[value.From] <= '9':
			u.counts = true
		}
	}
	u.reported, u.zero = n > 0, zeros == 3 && n == 3
	return jsonspan.Span{From: from, To: r.Pos}
}
