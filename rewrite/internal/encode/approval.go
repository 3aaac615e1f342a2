package encode

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
)

// Ask has the answer of Approvals to a request for approval, and the tool that waits.
type Ask struct {
	contract.Approval
	Tool *Tool // the tool that waits, nil if that is not certain
	// Shown says that the card of Tool shows that it waits, in the place of what it showed before.
	Shown bool
}

// waitsName begins the name of the card of a tool that waits.
const waitsName = "Approval needed:"

// statusBegins begins the status line of a request.
const statusBegins = "Approval needed: "

// statusLine returns the description of the status line for the command, JSON strings. It has
// no address that the text of the answer has.
func (a *Ask) statusLine(command string) string {
	line := statusBegins
	if a != nil && a.URL != "" && !a.Text {
		line += a.URL + " for "
	}
	return string(jsonspan.Quote(line + marker.Line(beginning(command, marker.MaxShown), marker.MaxShown-len(statusBegins))))
}

// members returns the members that the event gets, which may be none.
func (a *Ask) members() string {
	if a == nil {
		return ""
	}
	return requests.Members(a.Approval)
}

// waits returns a start of the tool that waits, whose card says that it waits, or nil if the tool
// has no card.
func (a *Ask) waits(w *Writer) *Transition {
	if a == nil || a.Tool == nil || !a.Tool.Card || !w.HasCards() || a.members() == "" {
		return nil
	}
	return &Transition{Tool: *a.Tool, Waits: true}
}

// Paragraph writes the paragraph that asks for an approval of the command, a JSON string, as text
// of the answer. first says that it begins that text, and last that it ends it.
func (w *Writer) Paragraph(a contract.Approval, command []byte, first, last bool) {
	text := marker.ApprovalLine(jsonspan.Unquote(command), marker.Ways{URL: a.URL, Code: a.Code, DenyOnly: a.DenyOnly})
	if !first {
		text = "\n\n" + text
	}
	if !last {
		text += "\n\n"
	}
	w.Delta(&chunk.Object{}, false, &prose.Kept{Text: jsonspan.Inside(jsonspan.Quote(text))})
	w.HasChunk = true
}

// Begin writes the first chunk of an answer.
func (w *Writer) Begin() {
	w.chunk(`[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]`)
}

// Stop writes a finish chunk that says stop.
func (w *Writer) Stop() { w.chunk(`[{"index":0,"delta":{},"finish_reason":"stop"}]`) }

// OutcomeIn returns what the tool event x says of the request for approval for which its tool waited:
// another sidecar knows that.
func OutcomeIn(x *chunk.Object) contract.ApprovalOutcome {
	if !x.C.Extra {
		return ""
	}
	o := contract.ApprovalOutcome(jsonspan.Unquote(x.String(x.Member(requests.MemberOutcome))))
	if o != contract.ApprovalWaits && o != contract.ApprovalDenied && o != contract.ApprovalExpired {
		return ""
	}
	return o
}
