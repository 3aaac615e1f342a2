package rewrite

import "bytes"

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
	reasoning  bool // a non-space character in reasoning_content or reasoning
	text       bool // a non-space character in the content of any choice
	extra      bool // a member that not every chunk has
	other      bool // the delta has a member with something in it that is no text
	acts       bool // that is one of the API's: a call or a refusal
	more       bool // the choice has a member that not every choice has
	role       span // the value of delta.role, when it is a string

	begun, ended uint64 // the choices that say something in this chunk and that finish in it, as bits
	further      bool   // there is one whose index is not 0
}

// parse finds the members of data. It is false when data is no object. The
// JSON is trusted to be well formed; validJSON is asked before a frame is
// changed.
func (c *chunk) parse(data []byte) bool {
	i := skipSpace(data, 0, ' ')
	if i >= len(data) || data[i] != '{' {
		return false
	}
	*c = chunk{open: i}
	i++
	for {
		key, value, next, ok := nextMember(data, i)
		if !ok {
			break
		}
		c.member(string(key.of(data)), value)
		i = next
	}
	c.shut = skipSpace(data, i, ' ')
	if c.shut >= len(data) || data[c.shut] != '}' {
		return false
	}
	c.readChoices(data)
	return true
}

func (c *chunk) member(name string, value span) {
	switch name {
	case "id":
		c.id = value
	case "object":
		c.object = value
	case "created":
		c.created = value
	case "model":
		c.model = value
	case "choices":
		c.choices = value
	case "usage":
		c.usage = value
	case "error":
		c.err = value
	case "hermes":
		c.hermes = value
	case "tool":
		c.tool = value
	case "emoji":
		c.emoji = value
	case "label":
		c.label = value
	case "toolCallId":
		c.callID = value
	case "status":
		c.status = value
	case "event":
		c.statusLine = value
		c.extra = true
	default:
		c.extra = true
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

func (c *chunk) readChoices(data []byte) {
	if !c.choices.ok() || data[c.choices.from] != '[' {
		return
	}
	c.list = true
	for i := c.choices.from + 1; ; {
		choice, next, ok := nextElement(data, i)
		if !ok || next > c.choices.to {
			return
		}
		c.readChoice(data, choice)
		i = next
	}
}

func (c *chunk) readChoice(data []byte, choice span) {
	c.count++
	if !choice.isObject(data) {
		return
	}
	var index int64
	var finish, text span
	for i := choice.from + 1; ; {
		key, value, next, ok := nextMember(data, i)
		if !ok {
			break
		}
		switch string(key.of(data)) {
		case "index":
			index = smallInt(value.of(data))
		case "delta":
			c.readDelta(data, value)
		case "finish_reason":
			finish = value
		case "text": // some providers say all twice
			text = value
		default:
			c.more = c.more || !value.is(data, "null")
		}
		i = next
	}
	c.repeat = span{}
	if text.isString(data) && c.content.ok() && bytes.Equal(text.of(data), c.content.of(data)) {
		c.repeat = text
	}
	c.more = c.more || text.ok() && !c.repeat.ok() && filled(text.of(data))
	c.begun |= bit(index)
	c.further = c.further || index != 0
	if finish.isString(data) && finish.to-finish.from > 2 { // some providers send ""
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

func (c *chunk) readDelta(data []byte, delta span) {
	if !delta.isObject(data) {
		return
	}
	c.delta = delta
	c.content, c.alone, c.bare = span{}, true, true
	for i := delta.from + 1; ; {
		key, value, next, ok := nextMember(data, i)
		if !ok {
			return
		}
		switch string(key.of(data)) {
		case "content":
			c.contentKey = key
			c.readContent(data, value)
		case "reasoning_content", "reasoning":
			c.alone, c.bare = false, false
			c.readThought(data, value)
		case "role":
			c.alone = false
			if value.isString(data) && value.to-value.from < maxEnvelope {
				c.role = value
			}
		case "tool_calls", "function_call", "refusal", "audio":
			c.alone, c.bare = false, false
			c.acts = c.acts || filled(value.of(data))
			c.other = c.other || c.acts
		default:
			c.alone, c.bare = false, false
			c.other = c.other || filled(value.of(data))
		}
		i = next
	}
}

func (c *chunk) readContent(data []byte, value span) {
	if !value.isString(data) {
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
	zero          bool // it is 0/0/0
	counts        bool // it counts a token
	input, output int64
}

// readUsage reads the usage. Without one, nothing is known.
func (c *chunk) readUsage(data []byte) (u usage) {
	if !c.usage.isObject(data) {
		return u
	}
	var n, zeros int
	for i := c.usage.from + 1; ; {
		key, value, next, ok := nextMember(data, i)
		if !ok {
			break
		}
		count := max(0, smallInt(value.of(data)))
		switch string(key.of(data)) {
		case "prompt_tokens":
			u.input = count
		case "completion_tokens":
			u.output = count
		case "total_tokens":
		default:
			i = next
			continue
		}
		n++
		switch first := data[value.from]; {
		case value.is(data, "0"):
			zeros++
		case first >= '1' && first <= '9':
			u.counts = true
		}
		i = next
	}
	u.zero = zeros == 3 && n == 3
	return u
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
