package agentapi

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// ask asks about the request for approval that e, an event of a run or of a session, makes. It
// returns the members that the event gets, and adds edits if it can only be denied. It
// offers no reply, because a reply needs the text of an answer, which these streams do not have.
func (s *Follower) ask(e event, edits *sse.Splice) string {
	if s.approvals == nil || s.kind != kindRuns && s.kind != kindSession ||
		string(s.nameOf(e)) != requests.Event || requests.IsAsked(e.Data, e.object()) || !jsonspan.Valid(e.Data) {
		return ""
	}
	run, tool := s.ownID, ""
	if s.kind == kindSession {
		run = s.run
	}
	q, ok := requests.Read(e.Data, e.object(), jsonspan.Unquote(run))
	if !ok {
		return ""
	}
	if requests.CannotBeShown(q) {
		for v := range requests.Choices(e.Data, e.object()) {
			edits.Replace(e.Frame, v.From, v.To, []byte(requests.OnlyDeny))
		}
	}
	if len(s.tools) == 1 { // which one waits is certain
		tool = s.tools[0].key
	}
	q.Tool = jsonspan.Unquote(tool)
	a, _ := s.approvals.Ask(q, tool)
	return requests.Members(contract.Approval{URL: a.URL})
}

// answered records what the event e with the name says of the requests for approval: one was
// answered, or the tool that waited for one has ended.
func (s *Follower) answered(name string, e event) {
	switch name {
	case requests.Answered:
		s.approvals.Answered(jsonspan.Unquote(e.text("request_id")))
	case "tool.completed", "tool.failed":
		key := e.text("tool")
		if s.kind == kindSession {
			key = e.text("tool_name")
		}
		if s.find(string(key)) < 0 { // tools have no ids: another of its name may wait
			s.approvals.Ended(string(key))
		}
	}
}

// End says that the stream is over.
func (s *Follower) End() { s.approvals.End() }
