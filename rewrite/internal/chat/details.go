package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// tellDetails sets what the tool of c was given and what it returned (contract section 8). It asks only
// about starts and ends that upstream itself has reported, under an id of its own: whoever ends many
// tools at once waits for none of them. An event in an envelope is another sidecar's, which has asked.
func (t *toolWriter) tellDetails(c *encode.Transition) {
	if !t.w.Envelops() || c.Source != contract.SourceUpstream {
		return
	}
	if c.Event != nil {
		c.Details, c.Told = encode.DetailsIn(c.Event)
	}
	if !c.Told {
		d := t.ask(c)
		if encode.SaysFailed(c.Event) {
			d.Failed = c.Details.Failed
		}
		c.Details = d
	}
	t.details += len(c.Details.Args) + len(c.Details.Result)
	if !c.Completed && c.Details.Args != nil {
		for i := range t.open {
			t.open[i].HasArgs = t.open[i].HasArgs || t.open[i].ID == c.ID
		}
	}
}

// ask returns what Params.Details know of the tool of c, if there is room for it in the stream.
func (t *toolWriter) ask(c *encode.Transition) (d contract.ToolDetails) {
	if t.p.Details == nil || c.Left || c.Inferred || c.In != contract.ProgressBare || t.ids.forgot || t.details >= contract.MaxDetails {
		return d
	}
	label := jsonspan.Truncate([]byte(c.Label), contract.MaxCallLabel)
	call := contract.ToolCall{
		ID: jsonspan.Unquote(c.OfUpstream()), Name: jsonspan.Unquote(c.Name), Label: jsonspan.Unquote(label), Nth: c.Nth,
	}
	if c.Completed {
		d = t.p.Details.Ended(call, t.flush)
	} else {
		d = t.p.Details.Started(call, t.flush)
	}
	if t.details+len(d.Args)+len(d.Result) > contract.MaxDetails {
		return contract.ToolDetails{}
	}
	if d.Args != nil || d.Result != nil {
		t.notes.Add(contract.SectionDetails, "what upstream has stored about the call is added to the event")
	}
	return d
}

// flush sends what has left so far, because the event that follows may have to wait.
func (t *toolWriter) flush() {
	if t.p.Flush != nil {
		t.w.Out.Bytes = t.p.Flush(t.w.Out.Bytes)
	}
}
