package resume

import (
	"runtime/debug"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Abandon ends a log whose run was cancelled, or is no more, at the time now. If the
// stream is one of Hermes', it gets the error finish that it still needs (contract section
// 3), and is whole with that. Any other stream has broken off, and so has one for which
// this panics, which is an error.
func Abandon(l Log, why Reason, now time.Time) (err error) {
	defer func() {
		if v := recover(); v != nil {
			l.End(false)
			err = &latePanic{v, debug.Stack()}
		}
	}()
	e := l.Entry()
	cause := rewrite.CauseAborted
	if why == ReasonShutdown {
		cause = rewrite.CauseShutdown
	}
	s := rewrite.New(new(rewrite.Options), rewrite.Params{
		Active:    rewrite.IsChatPath(e.Path),
		Responses: rewrite.IsResponsesPath(e.Path),
		RunID:     rewrite.RunOfPath(e.Path),
		SessionID: rewrite.SessionOfPath(e.Path),
		Progress:  rewrite.ProgressOf(e.Progress),
		ID:        func() string { return "chatcmpl-" + e.ID },
		Created:   now.Unix(),
	})
	number := newNumberer(e.ID) // to see where the stream stands
	number.apart = true         // a tool event may be a comment, which has lost its blank line
	var fed, scratch []byte
	err = l.Each(func(p []byte) {
		scratch, _ = number.add(scratch[:0], nil, p)
		fed = s.Feed(fed[:0], scratch, now)
	})
	if err != nil || !s.Guarded() || !number.between() {
		l.End(false)
		return err
	}
	number.apart = false
	number.setLast(l.Events())
	out, ends := number.add(nil, nil, s.Finish(nil, cause))
	if len(out) > 0 {
		err = l.Append(out, ends)
	}
	l.End(err == nil)
	return err
}
