package proxy

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// errNotSplit cancels upstream's request if the client has been asked for a reply, but the answer
// cannot go on without the client. It is not upstream's fault (see cancellations).
var errNotSplit = fmt.Errorf("the answer has ended with a request for approval, and cannot go on for the reply: %w", context.Canceled)

// setApprovals sets the parameters of p for requests for approval, as the options say.
func (s *stream) setApprovals(p *rewrite.Params) {
	x := s.x
	if x.o.Approvals == nil {
		return
	}
	var split func() bool
	if p.Approvals, split = x.o.Approvals(x.r); p.Approvals == nil || split == nil {
		return
	}
	p.Split = func(out []byte) []byte {
		if err := s.send(out); err == nil && !split() {
			x.fail(errNotSplit)
		}
		return out[:0]
	}
}

// reply answers the client's request, whose last message is text, if it is a reply to a request for
// approval. It reports whether it has: then the request does not go to the next handler.
func (x *exchange) reply(text string) (handled bool, err error) {
	if text == "" || x.o.Reply == nil || !x.chat {
		return false, nil
	}
	x.replied, err = x.o.Reply(x.w, x.r, text)
	return x.replied, err
}

// readsReplies reports whether the body of r is read for a reply, whatever the option History says.
func (o *Options) readsReplies(r *http.Request) bool {
	return o.Reply != nil && rewrite.IsChatPath(r.URL.Path)
}
