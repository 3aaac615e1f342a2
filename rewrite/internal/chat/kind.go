package chat

import (
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// kind is what a frame is.
type kind uint8

const (
	kindOther   kind = iota
	kindTool         // a tool event
	kindChunk        // a chunk
	kindError        // an error of upstream's that is not in a chunk
	kindWrapped      // a named event with the members of a chunk, which another sidecar has added
	kindNamed        // another named event
)

// kindOf returns the kind of the frame x, and the form of a tool event. large says that x is
// only the beginning of a large frame, which may lack the id of its tool.
func kindOf(x *chunk.Object, large bool) (kind, contract.Progress) {
	c, data, named := &x.C, x.F.Data, chunk.IsNamed(&x.F)
	wrapped := named && c.IsChunk(data) && saysNothing(x) // whatever else is in it, it is no chunk
	unnamed := c.CallID.IsString(data) && c.Choices.Ok()
	if large {
		unnamed = c.ChoicesArray && saysNothing(x)
	}
	switch {
	case string(x.F.Event) == encode.ProgressEvent && c.TellsTool(data):
		if c.IsChunk(data) && c.Count > 0 {
			return kindTool, contract.ProgressEnvelope
		}
		return kindTool, contract.ProgressBare
	case !named && c.IsToolEvent(data) && unnamed:
		return kindTool, contract.ProgressUnnamed
	case x.IsChunk() && !wrapped:
		return kindChunk, ""
	case x.HasError() && (!named || string(x.F.Event) == "error"):
		return kindError, ""
	case wrapped:
		return kindWrapped, ""
	case named:
		return kindNamed, ""
	}
	return kindOther, ""
}

// saysNothing reports whether the choices of the chunk x say nothing: there is one, with
// an empty delta and no finish reason.
func saysNothing(x *chunk.Object) bool {
	c, data := &x.C, x.F.Data
	return c.Count == 1 && c.FirstOnly && !c.Finish.Ok() &&
		c.Delta.IsObject(data) && jsonspan.SkipSpace(data, c.Delta.From+1) == c.Delta.To-1
}

// toolOf returns the tool that the event x names, and its status. The id has no escapes. What
// the event does not say is empty.
func toolOf(x *chunk.Object) (t encode.Tool, status string) {
	c := &x.C
	return encode.Tool{
		Name: string(x.String(c.Tool)), Emoji: string(x.String(c.Emoji)), Label: string(x.String(c.Label)),
		ID: string(jsonspan.Plain(x.String(c.CallID))),
	}, string(jsonspan.Inside(jsonspan.Plain(x.String(c.Status))))
}

// isInternal reports whether the tool with the name, a JSON string, is internal: clients
// never see it (contract section 2).
func isInternal(name string) bool { return strings.HasPrefix(jsonspan.Unquote(name), "_") }
