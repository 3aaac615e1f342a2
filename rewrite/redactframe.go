package rewrite

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// What upstream says about a failure, or about its state, by the frame it stands in
// (contract section 3).

// redact returns b, a part of what the chunk s.c says of an error, without secrets.
func (s *Stream) redact(b []byte) []byte {
	if !s.mayTellSecret() {
		return b
	}
	return redact.Value(b)
}

// mayTellSecret tells whether there may be a secret in what the chunk s.c says of an
// error. It looks once.
func (s *Stream) mayTellSecret() bool {
	f := &s.c.fault
	if !f.looked {
		f.looked = true
		f.secret = redact.MayHold(s.c.err.Of(s.f.Data)) || redact.MayHold(s.c.hermes.Of(s.f.Data))
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
func (s *Stream) redactOf(v jsonspan.Span) {
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
func (s *Stream) redactOthers(but ...jsonspan.Span) {
	eachError(s.f.Data, func(value jsonspan.Span) {
		if !slices.Contains(but, value) {
			s.redactIn(value)
		}
	})
}

// eachError calls each with the errors and hermes blocks in the object in data and in
// its choices, in order.
func eachError(data []byte, each func(value jsonspan.Span)) {
	for key, value := range jsonspan.Members(data, jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(data)}) {
		switch {
		case saysError(key.Of(data)):
			each(value)
		case key.Is(data, "choices"):
			for choice := range jsonspan.Elements(data, value) {
				for key, value := range jsonspan.Members(data, choice) {
					if saysError(key.Of(data)) {
						each(value)
					}
				}
			}
		}
	}
}

// saysError tells whether the name is that of an error or of a hermes block.
func saysError(name []byte) bool {
	return jsonspan.Spells(name, "error") || jsonspan.Spells(name, "hermes")
}

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
	return tellsState(s.f.Event) || s.c.extra && tellsState(jsonspan.Inside(jsonspan.MemberOf(s.f.Data, jsonspan.Span{From: s.c.open, To: s.c.shut + 1}, "type").Of(s.f.Data)))
}

// redactMany writes a frame that may have very many secrets anew without them, before
// it is handled: an edit of each would take more memory than the frame.
func (s *Stream) redactMany() {
	c, data := &s.c, s.f.Data
	if len(data) <= 4*maxRedactedEdits || s.known || !(c.extra || c.err.Ok() || c.hermes.Ok() || c.twins || c.errors || len(s.f.Event) > 0) {
		return
	}
	isError := !isNamed(&s.f) && !c.isChunk(data) && !c.list && c.err.IsSet(data) // see errorFrame
	var n, from, to int                                                           // the secrets, and where the first begins and the last ends
	clean := redact.Replace(data, func(each func(jsonspan.Span)) {
		count := func(secret jsonspan.Span) {
			if n++; n == 1 {
				from = secret.From
			}
			to = secret.To
			each(secret)
		}
		if isError || s.tellsState() {
			redact.EachInValue(data, count)
		} else {
			eachError(data, func(value jsonspan.Span) { eachSecretIn(data, value, count) })
		}
	})
	if n > maxRedactedEdits {
		s.note(contract.SectionEnd, "a secret in what upstream says of a failure: redacted")
		s.edits.Replace(&s.f, from, to, jsonspan.OneLine(clean[from:len(clean)-len(data)+to]))
		s.rewriteFrame()
	}
}

// eachSecretIn calls each with the secrets in the JSON value at v of data.
func eachSecretIn(data []byte, v jsonspan.Span, each func(secret jsonspan.Span)) {
	if b := v.Of(data); redact.MayHold(b) {
		redact.EachInValue(b, func(s jsonspan.Span) { each(jsonspan.Span{From: v.From + s.From, To: v.From + s.To}) })
	}
}

// maxRedactedEdits is how many secrets of a value are replaced one by one. Behind those
// the value is written anew, up to its end.
const maxRedactedEdits = 1024

// redactIn adds the edits that take secrets out of the strings in the JSON value at
// v. All other bytes stay.
func (s *Stream) redactIn(v jsonspan.Span) {
	if b := v.Of(s.f.Data); redact.MayHold(b) {
		s.redactBy(v, func(each func(jsonspan.Span)) { redact.EachInValue(b, each) })
	}
}

// redactData does so where the data of the frame s.f is no JSON that is well formed.
func (s *Stream) redactData() {
	if b := s.f.Data; redact.MayHold(b) {
		s.redactBy(jsonspan.Span{From: 0, To: len(b)}, func(each func(jsonspan.Span)) { redact.EachInText(b, each) })
	}
}

// redactBy adds the edits that replace the secrets in the data at v that find calls
// its argument with.
func (s *Stream) redactBy(v jsonspan.Span, find func(each func(secret jsonspan.Span))) {
	b := v.Of(s.f.Data)
	var r redact.Replacer
	var rest []byte
	n, from, at := 0, 0, 0
	find(func(secret jsonspan.Span) {
		s.note(contract.SectionEnd, "a secret in what upstream says of a failure: redacted")
		with := r.For(secret)
		if n++; n <= maxRedactedEdits {
			s.edits.Replace(&s.f, v.From+secret.From, v.From+secret.To, with)
			return
		}
		if rest == nil {
			from, at = secret.From, secret.From
			rest = make([]byte, 0, min(2*(len(b)-at), len(b)-at+2*redact.MaxGrowth))
		}
		rest = append(append(rest, b[at:secret.From]...), with...)
		at = secret.To
	})
	if rest != nil {
		s.edits.Replace(&s.f, v.From+from, v.To, jsonspan.OneLine(append(rest, b[at:]...)))
	}
}

// rewriteFrame makes the frame s.f what its edits have it say, and reads it again.
func (s *Stream) rewriteFrame() {
	s.f.Parse(s.edits.Append(make([]byte, 0, s.edits.Size(&s.f)), &s.f))
	s.c.parse(s.f.Data)
	s.edits.Reset()
}

// redactAll takes secrets out of all that the object s.c says.
func (s *Stream) redactAll() { s.redactIn(jsonspan.Span{From: s.c.open, To: s.c.shut + 1}) }

// tellsState reports whether an event of the name says nothing but that something has
// failed, or how the agent is.
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
	return redact.Replace(body, func(each func(jsonspan.Span)) {
		for key, value := range jsonspan.Members(body, jsonspan.Span{From: jsonspan.SkipSpace(body, 0), To: len(body)}) {
			switch name := string(key.Of(body)); {
			case failed && name != "id" && name != "object" && name != "created" && name != "model" && name != "usage",
				saysError(key.Of(body)):
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
	data, m := s.f.Data, &s.m
	whole := jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(data)}
	switch {
	case s.other.kind == kindSession && isNamed(&s.f) && string(s.f.Event) != "error" && string(s.f.Event) != "hermes.status":
	case tellsState(s.f.Event), m.typ.IsString(data) && tellsState(m.typ.Inner().Of(data)), m.event.IsString(data) && tellsState(m.event.Inner().Of(data)):
		s.redactIn(whole)
		return
	}
	s.redactIn(m.err)
	if m.response.IsObject(data) {
		s.redactIn(jsonspan.MemberOf(data, m.response, "error"))
		s.redactIn(jsonspan.MemberOf(data, m.response, "incomplete_details"))
	}
	if m.twins {
		s.redactOthers(m.err)
	}
}
