package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
)

// readApproval reads the request for approval in the frame x, which is of the kind k, before the frame
// loses its secrets: the command that runs has them. It returns nil if x makes none that has to be
// asked about. If another sidecar has asked about the request, the paragraphs in the stream are that
// sidecar's, and are not stripped.
func (s *Stream) readApproval(x *chunk.Object, k kind) *contract.ApprovalRequest {
	switch {
	case s.tools.requests == nil:
		return nil
	case x.C.Extra && requests.IsAsked(x.F.Data, x.C.All): // in the form unnamed it has no name
		s.upstream.setApprovals(false)
		return nil
	case string(x.F.Event) != requests.Event, k != kindNamed && k != kindWrapped, s.Finished, s.Done, s.end.manyChoices:
		return nil
	}
	q, ok := requests.Read(x.F.Data, x.C.All, jsonspan.Unquote(s.w.Env.ID))
	if !ok {
		return nil
	}
	if requests.CannotBeShown(q) {
		s.notes.Add(contract.SectionTools, "a request for approval whose command cannot be shown: it can only be denied")
		for v := range requests.Choices(x.F.Data, x.C.All) {
			x.ReplaceValue(v, requests.OnlyDeny)
		}
	}
	return &q
}

// approvalEvent asks about the request q, and writes its event x and its paragraph. If the client
// may reply, the answer ends, and what follows is another answer of the same run.
func (s *Stream) approvalEvent(x *chunk.Object, wrapped bool, q *contract.ApprovalRequest) {
	var ask encode.Ask
	id := ""
	if ask.Tool = s.tools.waiting(q.Command); ask.Tool != nil {
		id, q.Tool = ask.Tool.ID, jsonspan.Unquote(ask.Tool.Name)
	}
	// A good end after an error would hide it. All tools end, and begin again, which takes up to twice as much.
	q.MayReply = s.p.Split != nil && !s.end.failed && s.tools.endCost() <= maxGrowth/4
	var first bool
	ask.Approval, first = s.tools.requests.Ask(*q, id)
	command := x.String(x.Member("command")) // without secrets
	if s.w.NamedEvent(x, wrapped, false, &ask) {
		s.tools.showLine(ask.Tool)
	}
	if ask.Shown {
		s.tools.loseArgs(id)
	}
	if !ask.Text {
		ask.URL = ""
	}
	if !first || ask.URL == "" && ask.Code == "" && !ask.NoReply {
		return
	}
	s.notes.Add(contract.SectionTools, "a request for approval: the answer asks the user")
	splits, begins := ask.Code != "", !s.prose.Begun()
	if splits { // first, because Open WebUI cannot tell to which answer a text between a card and its output belongs
		s.tools.endPart(ask.Tool)
	}
	s.w.Paragraph(ask.Approval, command, begins, splits)
	if !splits {
		s.prose.Insert()
		return
	}
	s.w.Stop()
	s.w.Done()
	s.memory.split(s.tools.open, ask.Tool)
	s.Out.Bytes = s.p.Split(s.Out.Bytes)
	s.notes.Add(contract.SectionTools, "the answer ends here; what follows is the answer to the reply")
	s.w.Begin()
	s.tools.resume()
	s.prose.Restart()
}

// End says that the stream is over.
func (s *Stream) End() {
	s.tools.requests.End()
	s.memory.tell()
}
