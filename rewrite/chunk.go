package rewrite

import (
	"bytes"
	"strings"
)

// chunk is the JSON object in a frame's data: a chat.completion.chunk, a tool
// event, an error or something else. Its members are kept by position in data;
// of members that stand there twice the last counts, as it does for clients.
type chunk struct {
	open, shut int // where the object's braces are

	id, object, created, model span
	choices                    span
	usage, err, hermes         span
	tool, emoji, label         span
	callID, status, statusLine span

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
	delta      span
	content    span // the value of delta.content, when it is a string
	contentKey span // the name of that member, without its quotes
	repeat     span // the value of the choice's text, when it repeats the content
	finish     span // the value of finish_reason, when it gives one
	alone      bool // delta has no member but content
	bare       bool // delta has no member but content and role
	thought    span // the value of the last member with reasoning, when it is a string
	thoughts   int  // how many there are
	errors     bool // a choice may have an error of its own
	more       bool // the choice has a member that not every choice has
	role       span // the value of delta.role, when it is a string
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
	r := reader{b: data, i: blankFrom(data, 0)}
	if !r.opens('{') {
		return false
	}
	*c = chunk{open: r.i}
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			break
		}
		c.member(&r, string(name.of(data)))
	}
	c.shut = r.i - 1
	return r.ends()
}

// member reads the value of the member with the name.
func (c *chunk) member(r *reader, name string) {
	switch name {
	case "id":
		c.id = r.value()
	case "object":
		c.object = r.value()
	case "created":
		c.created = r.value()
	case "model":
		c.model = r.value()
	case "choices":
		c.choices = c.readChoices(r)
	case "usage":
		c.usage = c.readUsage(r)
	case "error":
		c.twins = c.twins || c.err.ok()
		c.err = c.fault.read(r, false)
	case "hermes":
		c.twins = c.twins || c.hermes.ok()
		c.hermes = c.fault.read(r, true)
	case "tool":
		c.tool = r.value()
	case "emoji":
		c.emoji = r.value()
	case "label":
		c.label = r.value()
	case "toolCallId":
		c.callID = r.value()
	case "status":
		c.status = r.value()
	case "event":
		c.statusLine = r.value()
		c.extra = true
	default:
		r.value()
		c.extra, c.twins = true, c.twins || strings.IndexByte(name, '\\') >= 0
	}
}

// isChunk tells whether the object says that it is a chat.completion.chunk.
func (c *chunk) isChunk(data []byte) bool {
	return c.object.is(data, `"chat.completion.chunk"`)
}

// isToolEvent tells whether the object has the members of a tool event.
func (c *chunk) isToolEvent(data []byte) bool {
	return c.tool.isString(data) && (c.callID.isString(data) || c.label.ok() || c.status.isString(data))
}

// tellsTool tells whether an event of a tool's name says anything of a tool, whatever
// the types of its other members are.
func (c *chunk) tellsTool(data []byte) bool {
	return c.tool.isString(data) || c.callID.isString(data) || c.label.isString(data) || c.status.isString(data)
}

func (c *chunk) readChoices(r *reader) span {
	c.inChoices = inChoices{}
	if !r.opens('[') {
		return r.value()
	}
	c.list = true
	from := r.i
	for r.open(); r.element(); {
		c.readChoice(r)
	}
	return span{from, r.i}
}

func (c *chunk) readChoice(r *reader) {
	c.count++
	if !r.opens('{') {
		r.value()
		return
	}
	var index int64
	var finish, text span
	before := c.speech
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			break
		}
		switch string(name.of(r.b)) {
		case "index":
			index = smallInt(r.value().of(r.b))
		case "delta":
			c.speech = before // of two the last counts
			c.content, c.role, c.alone, c.bare = span{}, span{}, false, false
			c.readDelta(r)
		case "finish_reason":
			finish = r.value()
		case "text": // some providers say all twice
			text = r.value()
		default:
			c.more = !r.value().is(r.b, "null") || c.more
			c.errors = c.errors || string(name.of(r.b)) == "error" || bytes.IndexByte(name.of(r.b), '\\') >= 0
		}
	}
	c.repeat = span{}
	if text.isString(r.b) && c.content.ok() && bytes.Equal(text.of(r.b), c.content.of(r.b)) {
		c.repeat = text
	}
	c.more = c.more || text.ok() && !c.repeat.ok() && filled(text.of(r.b))
	c.begun |= bit(index)
	c.further = c.further || index != 0
	if finish.isString(r.b) && finish.to-finish.from > 2 { // some providers send ""
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

func (c *chunk) readDelta(r *reader) {
	from := r.i
	if !r.opens('{') {
		r.value()
		return
	}
	c.alone, c.bare = true, true
	before := c.text
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			break
		}
		value := r.value()
		switch string(name.of(r.b)) {
		case "content":
			c.contentKey, c.text = name, before
			c.readContent(r.b, value)
		case "reasoning_content", "reasoning":
			c.alone, c.bare = false, false
			c.readThought(r.b, value)
		case "role":
			c.alone = false
			if value.isString(r.b) && value.to-value.from < maxEnvelope {
				c.role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.alone, c.bare = false, false
			c.acts = c.acts || filled(value.of(r.b))
			c.other = c.other || c.acts
		default:
			c.alone, c.bare = false, false
			c.other = c.other || filled(value.of(r.b))
		}
	}
	c.delta = span{from, r.i}
}

func (c *chunk) readContent(data []byte, value span) {
	if c.content = (span{}); !value.isString(data) {
		c.alone, c.bare = false, false
		c.other = c.other || filled(value.of(data))
		return
	}
	c.content = value
	c.text = c.text || hasText(value.inner().of(data))
}

func (c *chunk) readThought(data []byte, value span) {
	if !value.isString(data) {
		return
	}
	c.thought = value
	c.thoughts++
	c.reasoning = c.reasoning || hasText(value.inner().of(data))
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

func (c *chunk) readUsage(r *reader) span {
	c.tokens = usage{}
	if !r.opens('{') {
		return r.value()
	}
	from, u := r.i, &c.tokens
	var n, zeros int
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			break
		}
		value := r.value()
		count := max(0, smallInt(value.of(r.b)))
		switch string(name.of(r.b)) {
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
		case value.is(r.b, "0"):
			zeros++
		case value.ok() && r.b[value.from] >= '1' && r.b[value.from] <= '9':
			u.counts = true
		}
	}
	u.reported, u.zero = n > 0, zeros == 3 && n == 3
	return span{from, r.i}
}

// smallInt reads a JSON number that is a small integer, -1 when it is none.
func smallInt(b []byte) int64 {
	var n int64
	if len(b) == 0 || len(b) > 9 {
		return -1
	}
	for _, d := range b {
		if d < '0' || d > '9' {
			return -1
		}
		n = n*10 + int64(d-'0')
	}
	return n
}
