package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// readApproval reads the request for approval in the current frame, which is of the kind k, before
// the frame loses its secrets: the command that runs has them. If another sidecar has asked about
// the request, the paragraphs in the stream are that sidecar's, and are not stripped.
func (s *Stream) readApproval(k kind) {
	a := s.approvals
	if a == nil {
		return
	}
	x := s.Object()
	switch {
	case x.C.Extra && approval.IsAsked(x.F.Data, x.C.All): // in the form unnamed it has no name
		a.elsewhere = true
		s.setTools()
	case string(x.F.Event) != approval.Event, k != kindNamed && k != kindWrapped, s.Finished, s.Done, s.end.manyChoices:
	default:
		a.request, a.asks = approval.Read(x.F.Data, x.C.All, jsonspan.Unquote(s.w.Env.ID))
		if a.asks && approval.CannotBeShown(a.request) {
			s.notes.Add(contract.SectionTools, "a request for approval whose command cannot be shown: it can only be denied")
			for v := range approval.Choices(x.F.Data, x.C.All) {
				x.ReplaceValue(v, approval.OnlyDeny)
			}
		}
	}
}

// approvalEvent asks about the current request, and writes its event and its paragraph. If the
// client may reply, the answer ends, and what follows is another answer of the same run.
func (s *Stream) approvalEvent(wrapped bool) {
	x, a := s.Object(), s.approvals
	q := a.request
	a.request, a.asks = contract.ApprovalRequest{}, false // it may be large
	var ask encode.Ask
	id := ""
	if ask.Tool = s.waiting(q.Command); ask.Tool != nil {
		id, q.Tool = ask.Tool.ID, jsonspan.Unquote(ask.Tool.Name)
	}
	q.MayReply = s.p.Split != nil && s.tools.endCost() <= maxGrowth/4 // all tools end, and begin again, which takes up to twice as much
	var first bool
	ask.Approval, first = a.Ask(q, id)
	command := x.String(x.Member("command")) // without secrets
	if s.w.NamedEvent(x, wrapped, false, &ask) {
		s.showLine(ask.Tool)
	}
	if !ask.Text {
		ask.URL = ""
	}
	if !first || ask.URL == "" && ask.Code == "" && !ask.NoReply {
		return
	}
	s.notes.Add(contract.SectionTools, "a request for approval: the answer asks the user")
	begins := !s.text.prose.Begun()
	if ask.Code != "" {
		s.split(ask.Tool, func() { s.w.Paragraph(ask.Approval, command, begins, true) })
		return
	}
	s.w.Paragraph(ask.Approval, command, begins, false)
	s.text.prose.Insert()
}

// showLine records that a status line says that t waits, which is nil if that is not certain.
func (s *Stream) showLine(t *encode.Tool) {
	if s.line = (line{shown: true}); t != nil {
		s.line.tool = t.ID
	}
}

// waiting returns the open tool that waits for the command, nil if that is not certain.
func (s *Stream) waiting(command string) (t *encode.Tool) {
	open := s.tools.open
	if len(open) == 1 {
		t := open[0]
		return &t
	}
	for i := range open {
		if approval.Matches(jsonspan.Unquote(open[i].Label), command) {
			if t != nil {
				return nil
			}
			one := open[i]
			t = &one
		}
	}
	return t
}

// split ends the answer, and begins another one with what follows. In each of the two, every
// running tool has one start and one end. Only the client sees these: OnTool is not called. The end
// of waits, or of each tool if that is nil, says that it waits for the approval. ask writes the
// paragraph, after the ends of the tools, because Open WebUI cannot tell to which answer a text
// between the card of a tool and its output belongs.
func (s *Stream) split(waits *encode.Tool, ask func()) {
	for i := range s.tools.open {
		end := encode.Transition{Tool: s.tools.open[i], Completed: true, Source: contract.SourceEnd}
		if waits == nil || waits.ID == end.ID {
			end.Waits, end.Approval = true, contract.ApprovalWaits
		}
		s.w.Transition(&end)
	}
	s.takeBack()
	ask()
	s.w.Stop()
	s.w.Done()
	s.Out.Bytes = s.p.Split(s.Out.Bytes)
	s.notes.Add(contract.SectionTools, "the answer ends here; what follows is the answer to the reply")
	s.w.Begin()
	for i := range s.tools.open {
		s.w.Transition(&encode.Transition{Tool: s.tools.open[i], Source: contract.SourceUpstream})
	}
	s.text.prose.Restart()
}

// End says that the stream is over.
func (s *Stream) End() {
	if s.approvals != nil {
		s.approvals.End()
	}
}

// Answer returns a whole stream of the sidecar's own that says the text. It has no usage: nothing
// was used.
func Answer(p *contract.Params, text string) []byte {
	var out sse.Writer
	w := encode.NewWriter(&out, &contract.Options{}, p)
	w.Begin()
	w.Delta(&chunk.Object{}, false, &prose.Kept{Text: jsonspan.Inside(jsonspan.Quote(text))})
	w.Stop()
	w.Done()
	return out.Take()
}
