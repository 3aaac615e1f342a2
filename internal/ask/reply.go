package ask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// The codes of errors that answer a reply.
const (
	codeRefused = "approval_refused"
	codeGone    = "approval_gone"
)

// sentences precede the rest of a stream if the approval was answered or over before the reply.
var sentences = map[desk.Result]string{
	desk.AlreadyAnswered: "This request was answered before.\n\n",
	desk.TooLate:         "This reply came too late: the agent does not wait for it any more.\n\n",
}

// Secrets returns the codes and the tickets of the client of r.
func (o *Options) Secrets(r *http.Request) rewrite.Secrets {
	owner, _, ok := o.Owner(r)
	if !ok {
		return nil
	}
	return o.Desk.Secrets(owner)
}

// Answer answers r, a request for chat completions, if m, the last message of its user, is a reply
// to a request for approval, and r asks for a stream: with the rest of the answer that asked. If m
// has the code of an approval that waits and cannot answer it, Answer says what to write.
// Otherwise answered is false, and r is an ordinary request.
func (o *Options) Answer(w http.ResponseWriter, r *http.Request, m rewrite.Reply, form rewrite.AnswerForm) (answered bool, err error) {
	owner, _, ok := o.Owner(r)
	if !ok {
		return false, nil
	}
	if !m.IsReply || form != rewrite.AnswerStream {
		if !o.Desk.Secrets(owner)[m.Code] { // meanwhile it may have been answered
			return false, nil
		}
		return true, sendAdvice(w, m, form == rewrite.AnswerStream)
	}
	choice := desk.Deny
	if m.Approve {
		choice = desk.Once
	}
	reply := o.Desk.Reply(context.WithValue(r.Context(), replyKey{}, true), owner, choice, m.Code)
	switch {
	case reply.Ticket == nil:
		return false, nil
	case errors.Is(reply.Err, desk.ErrNotOffered):
		sendError(w, http.StatusBadRequest, codeRefused, "the command cannot be shown in full, or Hermes does not offer to run it once, so a reply can only deny it")
		return true, nil
	case reply.Result == desk.Refused:
		sendError(w, http.StatusBadGateway, codeRefused, "the agent did not accept the answer; send the reply again")
		return true, nil
	}
	late := &lateWriter{ResponseWriter: w, sentence: sentences[reply.Result], frames: sse.Scanner{MaxFrame: maxFirstChunk}}
	if err := reply.Ticket.Rest(late, r); err != nil {
		return true, err
	}
	if late.gone {
		w.Header().Del("Content-Length")
		sendError(w, http.StatusGone, codeGone, "the rest of the answer is no longer kept; send a new message")
		return true, nil
	}
	return true, late.end()
}

// sendAdvice answers with a chat completion that says how to reply with the code of m: a client that
// gets an error hides what it says.
func sendAdvice(w http.ResponseWriter, m rewrite.Reply, streamed bool) error {
	var id [15]byte
	_, _ = rand.Read(id[:]) // it never fails
	advice := rewrite.Advice{ID: fmt.Sprintf("chatcmpl-%x", id)[:38], Created: time.Now().Unix(), Code: m.Code}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if streamed {
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no")
		_, err := w.Write(advice.Stream())
		return err
	}
	h.Set("Content-Type", "application/json")
	_, err := w.Write(advice.Whole())
	return err
}

// sendError answers with an error that tells SDKs not to send the request again by themselves.
func sendError(w http.ResponseWriter, status int, code, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set(head.Retry, "false")
	w.WriteHeader(status)
	_, _ = w.Write(append(rewrite.AppendError(nil, code, message), '\n'))
}

// maxFirstChunk is the size in bytes of the largest frame that may be the first chunk of a stream.
const maxFirstChunk = 64 << 10

// lateWriter writes a stream with a sentence after its first chunk.
type lateWriter struct {
	http.ResponseWriter
	sentence string // "" for none, or if it has been written
	frames   sse.Scanner
	frame    sse.Frame
	gone     bool // there is no stream any more, and nothing is written
}

// Unwrap is for http.ResponseController.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader does not pass on the error of a stream that is gone, because it speaks of ids and
// keys, which the client did not send.
func (l *lateWriter) WriteHeader(status int) {
	if l.gone = status == http.StatusNotFound || status == http.StatusGone; !l.gone {
		l.ResponseWriter.WriteHeader(status)
	}
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if l.gone {
		return len(p), nil
	}
	if l.sentence == "" {
		return l.ResponseWriter.Write(p)
	}
	l.frames.Feed(p)
	var out []byte
	for u, b, ok := l.frames.Next(); ok; u, b, ok = l.frames.Next() {
		out = append(out, b...)
		if u == sse.UnitFrame && l.sentence != "" {
			l.frame.Parse(b)
			if chunk := contentAfter(l.frame.Data, l.sentence); chunk != nil {
				out, l.sentence = append(out, chunk...), ""
			}
		}
	}
	if l.frames.Rest(); l.sentence == "" {
		out = append(out, l.frames.Tail()...)
	}
	if _, err := l.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes the bytes that are left if the stream had no first chunk.
func (l *lateWriter) end() error {
	if l.sentence == "" {
		return nil
	}
	_, err := l.ResponseWriter.Write(l.frames.Tail())
	return err
}

// contentAfter returns a frame with the content text for the stream of chat completions whose first
// chunk is data, or nil if data is no such chunk.
func contentAfter(data []byte, text string) []byte {
	type delta struct {
		Content string `json:"content"`
	}
	type choice struct {
		Index        int     `json:"index"`
		Delta        delta   `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	}
	var chunk struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
	}
	if json.Unmarshal(rewrite.Finite(data), &chunk) != nil || chunk.Object != "chat.completion.chunk" {
		return nil
	}
	chunk.Choices = []choice{{Delta: delta{text}}}
	b, _ := json.Marshal(chunk) // it never fails
	return append(append([]byte("data: "), b...), "\n\n"...)
}
