package whole

import (
	"iter"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// turns goes once over the messages of a request, from one of the user's to the next. What an assistant
// has said before a user's message is one answer, in however many messages.
type turns struct {
	b    []byte
	r    jsonspan.Reader // in the array of messages
	each func(*spoken)   // is called for each message that is not the user's, unless it is nil

	past   contract.PastSum // of what has been read, without the messages before from
	from   int              // where the first message of the user's or the assistant's begins, 0 before it
	summed int              // b[from:summed] is in past

	content  jsonspan.Span // of the user's message
	asks     contract.Turn // that of the answer to it, without the Answer; its Question is 0 before the first one
	answered bool          // there is an answer before it
	last     contract.Turn // that of the answer, or of the last one
}

// spoken is a message by position.
type spoken struct{ role, content, calls, id jsonspan.Span }

// newTurns returns the turns of the messages at v.
func newTurns(b []byte, v jsonspan.Span) turns {
	t := turns{b: b, r: jsonspan.Reader{Data: b[:v.To], Pos: v.From}}
	if v.Ok() && b[v.From] == '[' {
		t.r.Open()
	}
	return t
}

// next moves past the next message of the user's. It returns false if there is none.
func (t *turns) next() bool {
	if t.r.Pos == len(t.r.Data) {
		t.answered = false
		return false
	}
	var answer contract.TextSum
	t.answered = false
	for t.r.Element() {
		begins := t.r.Pos
		m := readSpoken(t.b, &t.r)
		switch {
		case Spells(t.b, m.role, "user"):
			t.close(&answer)
			t.sum(begins)
			t.content, t.asks = m.content, contract.Turn{Past: t.past.Text(), Before: t.last.Answer, Question: questionOf(t.b, m.content)}
			return true
		case Spells(t.b, m.role, "assistant"):
			if t.from == 0 {
				t.from, t.summed = begins, begins
			}
			t.answered = true
			addTexts(&answer, t.b, m.content)
		}
		if t.each != nil {
			t.each(&m)
		}
	}
	t.close(&answer)
	return false
}

// close records the answer before a user's message, or at the end, if there is one.
func (t *turns) close(answer *contract.TextSum) {
	if t.answered {
		t.last = t.asks
		t.last.Answer = answer.Text()
	}
}

// sum records what has been read up to the end of a message of the user's that begins at begins.
func (t *turns) sum(begins int) {
	if t.from == 0 {
		t.from, t.summed = begins, begins
	}
	t.past.Add(t.b[t.summed:t.r.Pos])
	t.summed = t.r.Pos
}

// asked returns the turn of the answer that the request asks for, once next has returned false.
func (t *turns) asked() contract.Turn {
	if t.answered {
		return contract.Turn{}
	}
	return t.asks
}

// readSpoken moves r past a message.
func readSpoken(b []byte, r *jsonspan.Reader) (m spoken) {
	if !r.At('{') {
		r.Skip()
		return m
	}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		value := r.Skip()
		is := func(want string) bool { return jsonspan.Spells(name.Of(b), want) }
		switch {
		case is("role"):
			m.role = value
		case is("content"):
			m.content = value
		case is("tool_calls"):
			m.calls = value
		case is("tool_call_id"):
			m.id = value
		}
	}
	return m
}

// texts are the texts of the content at v, insides of strings: of a string, or of the parts that have
// one.
func texts(b []byte, v jsonspan.Span) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if v.IsString(b) {
			yield(v.Inner().Of(b))
			return
		}
		for part := range jsonspan.Elements(b, v) {
			if text := textOf(b, part); text.IsString(b) && !yield(text.Inner().Of(b)) {
				return
			}
		}
	}
}

func addTexts(sum *contract.TextSum, b []byte, v jsonspan.Span) {
	for text := range texts(b, v) {
		sum.Add(text)
	}
}

// questionOf returns the question that the content at v of a user's message asks: what the user has
// written. A reply to a request for approval is one word, in any case.
func questionOf(b []byte, v jsonspan.Span) contract.Text {
	var sum contract.TextSum
	for text := range texts(b, v) {
		own := ownWords(text)
		if len(own) < 2*len("approve") {
			if word := strings.ToLower(strings.TrimSpace(string(own))); word == "approve" || word == "deny" {
				own = []byte(word)
			}
		}
		sum.Add(own)
	}
	return sum.Text()
}

// Messages are the last messages of a request. The zero value has none.
type Messages struct {
	at    jsonspan.Span // all of them
	n     int           // how many there are
	first int           // where the first of them begins
	begin []int         // where the last of them begin: message i at i%maxTurn
}

// maxTurn is the number of messages, from the end, among which the last question and the answer before
// it are looked for.
const maxTurn = 256

// Read moves r past the messages, an array. It returns false, and moves nothing, if they are none, or not
// well formed.
func (m *Messages) Read(r *jsonspan.Reader) bool {
	ahead := *r
	if m.at, m.n = (jsonspan.Span{}), 0; !r.At('[') {
		return false
	}
	for ahead.Open(); ahead.Element(); ahead.Skip() {
		m.add(ahead.Pos)
	}
	if ahead.Data[ahead.Pos-1] != ']' {
		m.n = 0
		return false
	}
	m.at = jsonspan.Span{From: r.Pos, To: ahead.Pos}
	*r = ahead
	return true
}

// add adds a message that begins at from, unless m is nil.
func (m *Messages) add(from int) {
	if m != nil {
		if m.n == 0 {
			m.first = from
		}
		if m.n == len(m.begin) && m.n < maxTurn {
			m.begin = append(m.begin, from)
		} else {
			m.begin[m.n%maxTurn] = from
		}
		m.n++
	}
}

// turn returns the turn of the answer that the request asks for: what turns.asked returns, from the
// end. It is zero if the last maxTurn messages do not show it.
func (m *Messages) turn(b []byte) (t contract.Turn) {
	var answer []jsonspan.Span // contents, the last one first
	asked := false
	for i := m.n - 1; i >= 0; i-- {
		if i < m.n-maxTurn {
			return contract.Turn{}
		}
		r := jsonspan.Reader{Data: b, Pos: m.begin[i%maxTurn]}
		s := readSpoken(b, &r)
		user, assistant := Spells(b, s.role, "user"), Spells(b, s.role, "assistant")
		switch {
		case user && !asked:
			asked, t.Question = true, questionOf(b, s.content)
		case user && len(answer) > 0:
			i = 0
		case assistant && !asked:
			return contract.Turn{}
		case assistant:
			answer = append(answer, s.content)
		}
	}
	if len(answer) == 0 {
		return t
	}
	var sum contract.TextSum
	for _, content := range slices.Backward(answer) {
		addTexts(&sum, b, content)
	}
	t.Before = sum.Text()
	return t
}

// past returns the Past of that turn.
func (m *Messages) past(b []byte) contract.Text {
	to := 0 // where the last question ends
	for i := m.n - 1; i >= max(0, m.n-maxTurn) && to == 0; i-- {
		r := jsonspan.Reader{Data: b, Pos: m.begin[i%maxTurn]}
		if s := readSpoken(b, &r); Spells(b, s.role, "user") {
			to = r.Pos
		}
	}
	r := jsonspan.Reader{Data: b[:to], Pos: m.first}
	for from := r.Pos; from < to; from = r.Pos {
		if s := readSpoken(b, &r); Spells(b, s.role, "user") || Spells(b, s.role, "assistant") {
			var sum contract.PastSum
			sum.Add(b[from:to])
			return sum.Text()
		}
		r.Element()
	}
	return 0
}
