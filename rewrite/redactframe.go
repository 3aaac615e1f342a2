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
		s.redactOthers(s.c.err, s.c.hermes)
	}
}

// redactOthers takes secrets out of the errors in the frame's object, but for those
// that are seen to.
func (s *Stream) redactOthers(but ...span) {
	eachError(s.f.data, func(value span) {
		if !slices.Contains(but, value) {
			s.redactIn(value)
		}
	})
}

// eachError calls each with the errors and hermes blocks in the object in data and in
// its choices, in order.
func eachError(data []byte, each func(value span)) {
	for key, value := range membersOf(data, span{blankFrom(data, 0), len(data)}) {
		switch {
		case saysError(key.of(data)):
			each(value)
		case key.is(data, "choices"):
			for choice := range elementsOf(data, value) {
				for key, value := range membersOf(data, choice) {
					if saysError(key.of(data)) {
						each(value)
					}
				}
			}
		}
	}
}

// saysError tells whether the name is that of an error or of a hermes block.
func saysError(name []byte) bool { return spells(name, "error") || spells(name, "hermes") }

// redactFrame takes secrets out of what the frame s.f with the object s.c says of a
// failure or of the agent's state: out of all of it where it says nothing else.
func (s *Stream) redactFrame() {
	if s.tellsState() {
		s.redactAll()
		return
	}
	s.redactError()
}

// tellsState tells whether the frame s.f with the object s.c says nothing else.
func (s *Stream) tellsState() bool {
	return s.f.tellsState() || s.c.extra && tellsState(inside(memberOf(s.f.data, span{s.c.open, s.c.shut + 1}, "type").of(s.f.data)))
}

// redactMany writes a frame that may have very many secrets anew without them, before
// it is handled: an edit of each would take more memory than the frame.
func (s *Stream) redactMany() {
	c, data := &s.c, s.f.data
	if len(data) <= 4*maxRedactedEdits || s.known || !(c.extra || c.err.ok() || c.hermes.ok() || c.twins || c.errors || len(s.f.event) > 0) {
		return
	}
	isError := !isNamed(&s.f) && !c.isChunk(data) && !c.list && c.err.set(data) // see errorFrame
	var n, from, to int                                                         // the secrets, and where the first begins and the last ends
	clean := redactEach(data, func(each func(span)) {
		count := func(secret span) {
			if n++; n == 1 {
				from = secret.from
			}
			to = secret.to
			each(secret)
		}
		if isError || s.tellsState() {
			eachSecret(data, count)
		} else {
			eachError(data, func(value span) { eachSecretIn(data, value, count) })
		}
	})
	if n > maxRedactedEdits {
		s.note(sectionEnd, "a secret in what upstream says of a failure: redacted")
		s.edit(from, to, oneLine(clean[from:len(clean)-len(data)+to]))
		s.rewriteFrame()
	}
}

// eachSecretIn calls each with the secrets in the JSON value at v of data.
func eachSecretIn(data []byte, v span, each func(secret span)) {
	if b := v.of(data); mayHoldSecret(b) {
		eachSecret(b, func(s span) { each(span{v.from + s.from, v.from + s.to}) })
	}
}

// rewriteFrame makes the frame s.f what its edits have it say, and reads it again.
func (s *Stream) rewriteFrame() {
	size := len(s.f.raw)
	for _, e := range s.edits {
		size += len(e.with) - (e.to - e.from)
	}
	s.f.parse(s.render(make([]byte, 0, size)))
	s.c.parse(s.f.data)
	s.edits = s.edits[:0]
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
		for key, value := range membersOf(body, span{blankFrom(body, 0), len(body)}) {
			switch name := string(key.of(body)); {
			case failed && name != "id" && name != "object" && name != "created" && name != "model" && name != "usage",
				saysError(key.of(body)):
				eachSecretIn(body, value, each)
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
	whole := span{blankFrom(data, 0), len(data)}
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
		s.redactOthers(m.err)
	}
}
