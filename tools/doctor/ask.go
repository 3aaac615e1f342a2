package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	// maxAnswer is how much of an answer to the chat request is read, in bytes.
	maxAnswer = 1 << 20
	// heldUp is from when on a first frame is late: Hermes sends it before it asks
	// its model.
	heldUp = time.Second
)

// chatPath is where a chat request goes, and chatRequest all that it says.
const (
	chatPath    = "/v1/chat/completions"
	chatRequest = `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":"Reply with the single word: pong"}]}`
)

// A talk is the answer to a chat request, and when it came.
type talk struct {
	status int
	header http.Header
	proto  string
	length int64 // as the header promises it, -1 for a stream
	body   []byte
	cause  rewrite.Cause
	long   bool // it was longer than maxAnswer
	left   bool // it had not ended when the doctor's own time was over

	first, last time.Duration // from the request to the first frame of data, and to the last byte
}

// chat sends the chat request and reads its answer. There is an error only where there is
// no answer.
func (s *server) chat(ctx context.Context, timeout time.Duration, now func() time.Time) (*talk, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := s.request(ctx, http.MethodPost, chatPath, strings.NewReader(chatRequest), true)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // it is not sent again
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	began := now()
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	t := &talk{status: res.StatusCode, header: res.Header, proto: res.Proto, length: res.ContentLength}
	room := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(room)
		if n > 0 {
			t.add(room[:n], now().Sub(began))
		}
		switch {
		case len(t.body) >= maxAnswer:
			t.long = true
			return t, nil
		case err == io.EOF:
			return t, nil
		case isTimeout(err) || errors.Is(err, context.Canceled):
			t.left = true
			return t, nil
		case err != nil:
			t.cause = rewrite.CauseAborted
			return t, nil
		}
	}
}

// add takes what one read has brought.
func (t *talk) add(b []byte, at time.Duration) {
	const field = "data:"
	seen := max(len(t.body)-len(field), 0)
	t.body = append(t.body, b[:min(len(b), maxAnswer-len(t.body))]...)
	if t.first == 0 && bytes.Contains(t.body[seen:], []byte(field)) {
		t.first = max(at, 1)
	}
	t.last = at
}

// isStream reports whether the answer is an event stream that can be read.
func (t *talk) isStream() bool {
	kind, _, _ := mime.ParseMediaType(t.header.Get("Content-Type"))
	return kind == "text/event-stream" && t.header.Get("Content-Encoding") == ""
}

// collected reports whether something has collected the answer before it sent it on, and
// says what shows that.
func (t *talk) collected() (says words, is bool) {
	switch whole := t.last - t.first; {
	case t.length >= 0:
		return "the answer has a Content-Length, which a stream does not have", true
	case t.first >= heldUp && whole <= t.last/10:
		return words("the first frame came after " + short(t.first) + ", and all others within " + short(whole)), true
	}
	return "", false
}

// short returns a duration in milliseconds.
func short(d time.Duration) string {
	if d > 0 && d < time.Millisecond {
		return "less than 1ms"
	}
	return d.Round(time.Millisecond).String()
}

// shows notes what an answer of the agent shows.
func (e *examination) shows(r *reading) {
	e.reading = r
	if r.foreign {
		e.find("chunks", Warn, "the chunks are not written as Hermes writes them", "Something between decodes them and writes them anew. "+
			"It may cut the text in other places, too, so that markers of Hermes 0.7 and 0.8 are not known for what they are.")
	}
	if !r.ended {
		return // what has not come may change all of this
	}
	if r.summary.Chunks > 0 {
		e.usage(r)
	}
	if r.changed {
		e.find("repaired", Info, "what the sidecar changes in this answer: "+e.steps(r), "§ is the section of docs/contract.md.")
	} else {
		e.find("repaired", Info, "this answer needs no repair", "")
	}
}

// answer sends the chat request to s and says how it was answered. The reading is nil
// without a stream.
func (e *examination) answer(ctx context.Context, s *server) *reading {
	t, err := s.chat(ctx, e.o.AskTimeout, e.o.Now)
	if err != nil {
		if isTimeout(err) {
			e.find("answer", Fail, e.say("no answer within %s", e.o.AskTimeout), "Hermes sends the header of its answer at once, so it hangs, or something between collects the answer. "+
				"--ask-timeout allows more.")
			return nil
		}
		says, why := e.unreachable(ctx, s, err)
		e.find("answer", Fail, says, why)
		return nil
	}
	if t.status != http.StatusOK {
		message, _ := errorOf(t.body)
		e.find("answer", Fail, e.say("the chat request is answered with status %d%s", t.status, e.quoted(message)), "Look into Hermes' own log.")
		return nil
	}
	if !t.isStream() {
		e.notAStream(t)
		return nil
	}
	if t.long {
		e.find("answer", Warn, e.say("the answer is longer than %d KiB, and was left", maxAnswer>>10), "The request asks for one word. Leaving ends the agent's run.")
		return nil
	}
	r := newReading(chatPath)
	r.feed(t.body)
	if !t.left {
		r.finish(t.cause)
	}
	switch {
	case t.left:
		e.find("answer", Fail, e.say("the answer has not ended within %s", e.o.AskTimeout)+e.state(r), "The agent may still work on it, or hang. "+
			"Since 0.21.4 Hermes asks a provider that is away again for five minutes before it gives up. --ask-timeout allows more.")
	case r.summary.Code != "":
		e.find("answer", Fail, e.endedIn(r), "Look into Hermes' own log: often its model's provider has refused.")
	default:
		e.find("answer", OK, e.say("a stream of %d chunks over %s, with the finish reason %s", r.summary.Chunks, t.proto, r.summary.FinishReason), "")
	}
	e.pace(t)
	return r
}

// endedIn says in which error an answer ended, in upstream's words if it gave a reason.
func (e editor) endedIn(r *reading) words {
	reason := e.quoted(r.reason)
	if r.summary.Code != rewrite.CodeAgentError || reason == "" {
		reason = words(": " + rewrite.Message(r.summary.Code))
	}
	return e.say("the answer ended in an error, %s%s", r.summary.Code, reason)
}

// state says what Hermes has reported of its state last.
func (e editor) state(r *reading) words {
	if r.status == "" {
		return ""
	}
	return "; its last hermes.status" + e.quoted(r.status)
}

// steps says what the engine did.
func (e editor) steps(r *reading) (all words) {
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

// notAStream says what came instead of a stream.
func (e *examination) notAStream(t *talk) {
	if encoding := t.header.Get("Content-Encoding"); encoding != "" {
		e.find("answer", Fail, "the answer is compressed"+e.quoted(encoding)+", although the request forbids it",
			"The sidecar passes compressed streams as they are, without a repair. Switch off the compression of what stands in front of Hermes.")
		return
	}
	e.find("answer", Fail, "the answer is no event stream"+e.quoted(t.header.Get("Content-Type")), "Something between collects the stream, or this is not Hermes.")
}

// pace says whether the answer came as it was made.
func (e *examination) pace(t *talk) {
	if t.first == 0 {
		return // none came
	}
	if says, is := t.collected(); is {
		e.find("pace", Fail, says+": something between collects the stream",
			"Hermes sends its first frame before it asks its model. Look for a proxy with buffering (proxy_buffering of nginx, response_buffers of Caddy) or an inspection of traffic.")
		return
	}
	says := e.say("the first frame came after %s, the last after %s", short(t.first), short(t.last))
	if t.last < heldUp {
		e.find("pace", Info, says, "That is too quick to tell whether something collects the stream.")
		return
	}
	e.find("pace", OK, says, "Nothing collects the stream on its way.")
}

// usage says whether the answer reports its usage.
func (e *examination) usage(r *reading) {
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
