package rewrite

import (
	"bytes"
	"slices"
)

// What upstream says about a failure, or about its state, by the frame it stands in
// (contract section 3).

// redact returns b, a part of what the chunk s.c says of an error, without secrets.
func (s *Stream) redact(b []byte) []byte {
	if !s.mayTellSecret() {
		return b
	}
	return redact(b)
}

// mayTellSecret tells whether there may be a secret in what the chunk s.c says of an
// error. It looks once.
func (s *Stream) mayTellSecret() bool {
	f := &s.c.fault
	if !f.looked {
		f.looked = true
		f.secret = mayHoldSecret(s.c.err.of(s.f.data)) || mayHoldSecret(s.c.hermes.of(s.f.data))
	}
	return f.secret
}

// redactError takes secrets out of what the chunk s.c says of an error.
func (s *Stream) redactError() {
	s.redactOf(s.c.err)
	s.redactOf(s.c.hermes)
	s.redactTwins()
}

// redactOf takes secrets out of one of the two.
func (s *Stream) redactOf(v span) {
	if s.mayTellSecret() {
		s.redactIn(v)
	}
}

// redactTwins takes secrets out of what else the chunk s.c says of an error: in
// members that stand twice, of which clients differ in the one they take, or whose
// name is escaped, and in choices.
func (s *Stream) redactTwins() {
	if s.c.twins || s.c.errors {
		s.eachTwin(span{s.c.open, s.c.shut + 1}, s.c.err, s.c.hermes)
	}
}

// eachTwin takes secrets out of the errors in the object at v, but for those that are
// seen to.
func (s *Stream) eachTwin(v span, but ...span) {
	data := s.f.data
	for i := v.from + 1; ; {
		key, value, next, ok := nextMember(data, i)
		if !ok {
			return
		}
		switch {
		case slices.Contains(but, value):
		case saysError(key.of(data)):
			s.redactIn(value)
		case key.is(data, "choices") && data[value.from] == '[':
			s.redactChoices(value)
		}
		i = next
	}
}

// redactChoices takes secrets out of the errors in the choices at v.
func (s *Stream) redactChoices(v span) {
	data := s.f.data
	for i := v.from + 1; ; {
		choice, next, ok := nextElement(data, i)
		if !ok {
			return
		}
		i = next
		if !choice.isObject(data) {
			continue
		}
		for i := choice.from + 1; ; {
			key, value, next, ok := nextMember(data, i)
			if !ok {
				break
			}
			if saysError(key.of(data)) {
				s.redactIn(value)
			}
			i = next
		}
	}
}

// saysError tells whether the name is that of an error or of a hermes block.
func saysError(name []byte) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		if len(name) > 6*len("hermes") {
			return false
		}
		name = appendText(nil, name)
	}
	return string(name) == "error" || string(name) == "hermes"
}

// redactFrame takes secrets out of what the frame s.f with the object s.c says of a
// failure or of the agent's state: out of all of it where it says nothing else.
func (s *Stream) redactFrame() {
	if s.f.tellsState() || s.c.extra && tellsState(inside(memberOf(s.f.data, span{s.c.open, s.c.shut + 1}, "type").of(s.f.data))) {
		s.redactAll()
		return
	}
	s.redactError()
}

// redactAll takes secrets out of all that the object s.c says.
func (s *Stream) redactAll() { s.redactIn(span{s.c.open, s.c.shut + 1}) }

// tellsState tells whether the frame says nothing but that something has failed, or
// how the agent is.
func (f *frame) tellsState() bool { return len(f.event) > 0 && tellsState(f.event) }

func tellsState(event []byte) bool {
	switch string(event) {
	case "error", "hermes.status", "approval.request", "hermes.approval.request", "run.interrupted":
		return true
	}
	return bytes.HasSuffix(event, []byte(".failed")) || bytes.HasSuffix(event, []byte(".error"))
}

// redactAnswer returns the answer in body, which is not streamed, without the secrets
// in what it says of an error. Where it says one, that is all that it says but for what
// names it.
func redactAnswer(body []byte, failed bool) []byte {
	return redactEach(body, func(each func(span)) {
		for i := blankFrom(body, 0) + 1; ; {
			key, value, next, ok := nextMember(body, i)
			if !ok {
				return
			}
			i = next
			switch name := string(key.of(body)); {
			case failed && name != "id" && name != "object" && name != "created" && name != "model" && name != "usage",
				saysError(key.of(body)):
				if mayHoldSecret(value.of(body)) {
					eachSecret(value.of(body), func(s span) { each(span{value.from + s.from, value.from + s.to}) })
				}
			}
		}
	})
}

// redactOther takes secrets out of what the frame s.f, whose members are s.m, says of a
// failure or of the agent's state, in a stream of another kind that is known.
func (s *Stream) redactOther() {
	if !s.looksAtErrors() {
		return
	}
	data, m := s.f.data, &s.m
	whole := span{skipSpace(data, 0, ' '), len(data)}
	switch {
	case s.other.kind == kindSession && isNamed(&s.f) && string(s.f.event) != "error" && string(s.f.event) != "hermes.status":
	case s.f.tellsState(), m.typ.isString(data) && tellsState(m.typ.inner().of(data)), m.event.isString(data) && tellsState(m.event.inner().of(data)):
		s.redactIn(whole)
		return
	}
	s.redactIn(m.err)
	if m.response.isObject(data) {
		s.redactIn(memberOf(data, m.response, "error"))
		s.redactIn(memberOf(data, m.response, "incomplete_details"))
	}
	if m.twins {
		s.eachTwin(whole, m.err)
	}
}
