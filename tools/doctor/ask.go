package doctor

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	// maxAnswer is how much of an answer to the chat request is read, in bytes.
	maxAnswer = 1 << 20
	// heldUp is the delay after which a first frame is late: Hermes sends it before it asks its
	// model.
	heldUp = time.Second
)

// chatPath is the path of the chat request, and chatRequest its body.
const (
	chatPath    = "/v1/chat/completions"
	chatRequest = `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"Reply with the single word: pong"}]}`
)

// busy explains the error codes of a 429. Only the 429 of Hermes tells how many runs it admits:
// none of its endpoints does, from 0.13 to 0.22.
var busy = map[string]words{
	"rate_limit_exceeded": "Hermes already runs as many agents as it allows (gateway.api_server.max_concurrent_runs in its config.yaml). Try again when one has ended. " +
		"With hermes_queue in front of hermes, clients wait in line instead: docs/queue.md.",
	"queue_full":    "Hermes already runs as many agents as runs of hermes_queue allows, and no more requests may wait. GET /hermes/streams lists what runs and what waits.",
	"queue_timeout": "Hermes already runs as many agents as runs of hermes_queue allows, and none ended in time. GET /hermes/streams lists what runs and what waits.",
}

// checkAnswer sends the chat request to s, and adds findings about the answer. It returns nil if the
// checkAnswer is no stream, or too long to be read to its end.
func (e *examination) checkAnswer(ctx context.Context, s *server) *reading {
	ctx, cancel := context.WithTimeout(ctx, e.askTimeout)
	defer cancel()
	began := e.now()
	res, err := s.send(ctx, chatPath, chatRequest, true)
	if err != nil {
		if isTimeout(err) {
			e.find("answer", Fail, e.say("no answer within %s", e.askTimeout), "Hermes sends the header of its answer at once, so it hangs, or something in between buffers the answer. "+
				"--ask-timeout allows more.")
			return nil
		}
		e.findUnreachable(ctx, s, "answer", "", err)
		return nil
	}
	defer res.Body.Close()
	if !e.isStream(res) {
		return nil
	}
	r, left := newReading(chatPath), false
	r.sidecar, r.session = res.Header.Get(proxy.SidecarHeader), res.Header.Get(sessionHeader)
	room := make([]byte, 32<<10)
	for total := 0; !r.ended && !left; {
		n, err := res.Body.Read(room)
		if n > 0 {
			r.at = e.now().Sub(began)
			_ = r.feed(room[:n]) // never fails
		}
		switch total += n; {
		case total >= maxAnswer:
			e.find("answer", Warn, e.say("the answer is longer than %d KiB, and was not read further", maxAnswer>>10), "The request asks for one word. Disconnecting ends the agent's run.")
			return nil
		case err == io.EOF:
			r.finish(rewrite.CauseEOF)
		case isTimeout(err) || errors.Is(err, context.Canceled):
			left = true
		case err != nil:
			r.finish(rewrite.CauseAborted)
		}
	}
	switch {
	case left:
		says := e.say("the answer did not end within %s", e.askTimeout)
		if r.status != "" {
			says += "; its last hermes.status" + e.quoted(r.status)
		}
		e.find("answer", Fail, says, "The agent may still be working, or hang. "+
			"Since 0.21.4, Hermes retries an unavailable provider for five minutes before it gives up. --ask-timeout allows more.")
	case r.summary.Code != "":
		e.find("answer", Fail, e.endedIn(r), "See Hermes' log: often the model's provider has rejected the request.")
	default:
		e.find("answer", OK, e.say("a stream of %d chunks over %s, with the finish reason %s", r.summary.Chunks, res.Proto, r.summary.FinishReason), "")
	}
	if r.first > 0 {
		e.checkPace(res.ContentLength, r.first, r.at)
	}
	return r
}

// isStream reports whether the answer is an event stream that can be read, and otherwise adds a
// finding.
func (e *examination) isStream(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	encoding := res.Header.Get("Content-Encoding")
	switch {
	case res.StatusCode != http.StatusOK:
		r, _ := read(res, maxProbe)
		level, why := Fail, words("See Hermes' log.")
		if r.StatusCode == http.StatusTooManyRequests {
			if reason := busy[r.says("error.code")]; reason != "" {
				level, why = Warn, reason
			}
		}
		e.find("answer", level, e.say("the chat request was answered with status %d%s", r.StatusCode, e.quoted(r.message())), why)
	case encoding != "":
		e.find("answer", Fail, "the answer is compressed"+e.quoted(encoding)+", although the request forbids it",
			"The sidecar does not repair compressed streams. Turn off compression in whatever stands in front of Hermes.")
	case kind != "text/event-stream":
		e.find("answer", Fail, "the answer is not an event stream"+e.quoted(res.Header.Get("Content-Type")),
			"Something in between buffers the stream, or this is not Hermes.")
	default:
		return true
	}
	return false
}

// recordShown records what an answer of the agent shows.
func (e *examination) recordShown(r *reading) {
	if e.reading = r; r.shown.what != "" {
		e.evidence = append(e.evidence, r.shown)
	}
	if r.foreign {
		e.find("chunks", Warn, "the chunks are not written as Hermes writes them", "Something in between decodes and rewrites them. "+
			"It may also split the text elsewhere, so that markers of Hermes 0.7 and 0.8 are not recognised.")
	}
	if !r.ended {
		return // the rest may change all of this
	}
	if r.summary.Chunks > 0 {
		e.checkUsage(r)
	}
	if r.changed {
		e.find("repaired", Info, "what the sidecar changes in this answer: "+e.steps(r), "§ is the section of docs/contract.md.")
	} else {
		e.find("repaired", Info, "this answer needs no repair", "")
	}
}

// endedIn describes the error that an answer ended in, in upstream's words if it gave a reason.
func (e *examination) endedIn(r *reading) words {
	reason := e.quoted(r.reason)
	if r.summary.Code != rewrite.CodeAgentError || reason == "" {
		reason = words(": " + rewrite.Message(r.summary.Code))
	}
	return e.say("the answer ended with an error, %s%s", r.summary.Code, reason)
}

// steps lists what the engine did.
func (e *examination) steps(r *reading) (all words) {
	for i, text := range r.done {
		if i > 0 {
			all += "; "
		}
		if all += e.say("%s", text); r.times[text] > 1 {
			all += e.say(" (%d times)", r.times[text])
		}
	}
	if r.more > 0 {
		all += e.say("; and %d more", r.more)
	}
	return all
}

// checkPace adds a finding that says whether something between collects the stream. length is the
// Content-Length of the answer, -1 for a stream; first and last are the times from the request to
// the first frame and to the last byte.
func (e *examination) checkPace(length int64, first, last time.Duration) {
	collected := words("the answer has a Content-Length, which a stream does not have")
	if rest := last - first; length < 0 {
		collected = words("the first frame arrived after " + short(first) + ", and all others within " + short(rest))
		if first < heldUp || rest > last/10 {
			collected = ""
		}
	}
	says := words("the first frame arrived after " + short(first) + ", the last after " + short(last))
	switch {
	case collected != "":
		e.find("pace", Fail, collected+": something in between buffers the stream",
			"Hermes sends its first frame before it asks its model. Look for a proxy that buffers (proxy_buffering of nginx, response_buffers of Caddy) or inspects traffic.")
	case last < heldUp:
		e.find("pace", Info, says, "That is too quick to tell whether something buffers the stream.")
	default:
		e.find("pace", OK, says, "Nothing buffers the stream on its way.")
	}
}

// short returns a duration in milliseconds.
func short(d time.Duration) string {
	if d > 0 && d < time.Millisecond {
		return "less than 1ms"
	}
	return d.Round(time.Millisecond).String()
}

// checkUsage adds a finding that says whether the answer reports its usage.
func (e *examination) checkUsage(r *reading) {
	switch in, out := r.summary.InputTokens, r.summary.OutputTokens; {
	case in+out > 0:
		e.find("usage", OK, e.say("%d tokens in, %d out", in, out), "")
	case r.summary.ZeroUsagePassed:
		e.find("usage", Warn, "the answer has text, and a usage of zero tokens", "Its provider reports no usage, or the agent crashed after the text. See the option zero_usage below.")
	case r.usage:
		e.find("usage", Info, "the answer reports a usage of zero tokens", "")
	default:
		e.find("usage", Info, "the answer reports no usage", "")
	}
}
