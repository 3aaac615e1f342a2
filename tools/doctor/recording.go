package doctor

import (
	"io"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Recording examines a recorded stream. It is as upstream sent it, with an HTTP header in
// front, as curl -i shows it, or without. Of the options, Key and Set matter. The error is
// recording.ErrNothing if nothing of Hermes is in it.
func Recording(in io.Reader, name string, m recording.Meta, o Options) (Agent, error) {
	e := &examination{Agent: newAgent(printable(name), "recording"), editor: editor{o.Key}, o: o}
	cause, err := recording.ParseCause(m.Cause)
	if err != nil {
		return e.Agent, err
	}
	_, body, err := recording.Open(in)
	if err != nil {
		return e.Agent, err
	}
	r := newReading(m.Path)
	if err := recording.Pieces(body, r.feed); err != nil {
		return e.Agent, err
	}
	r.finish(cause)
	switch {
	case r.summary == rewrite.Summary{}:
		return e.Agent, recording.ErrNothing
	case r.summary.Chunks == 0:
		e.find("answer", Info, "a stream without a chunk of a chat", "Only streams of /v1/chat/completions tell much of the release.")
	case r.summary.Code != "":
		e.find("answer", Warn, e.endedIn(r), "")
	default:
		e.find("answer", OK, e.say("a stream of %d chunks, with the finish reason %s", r.summary.Chunks, r.summary.FinishReason), "")
	}
	e.shows(r)
	e.conclude()
	return e.Agent, nil
}
