package hermes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// An answer is what an Agent answers a request with.
type answer struct {
	form
	agent  *Agent
	w      http.ResponseWriter
	over   context.Context // when the client has left
	req    *Request
	said   strings.Builder
	stored int      // how much of it is in a row
	seq    int      // of events
	chose  []string // what its questions were answered with
}

// A form is how an answer is written. What it has no function for does not show.
type form struct {
	contentType string
	begin       func(a *answer)
	text        func(a *answer, text string)
	end         func(a *answer)
}

// Text implements Stream.
func (a *answer) Text(text string) {
	a.said.WriteString(text)
	if a.text != nil {
		a.text(a, text)
	}
}

// Frame implements Stream. An answer that is not streamed has no events.
func (a *answer) Frame(lines ...string) {
	switch last := lines[len(lines)-1]; {
	case a.begin != nil:
		write(a.w, lines...)
	case a.req.run && strings.Contains(last, `"run_id"`): // the events of a run have no names, and only these reach its reader
		a.agent.keep(a.req, last)
	}
}

// Wait implements Stream.
func (a *answer) Wait(event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	case <-a.over.Done():
		return false
	}
}

// Die implements Stream.
func (a *answer) Die() {
	a.agent.ends(a.req, false)
	if a.w != nil {
		panic(http.ErrAbortHandler)
	}
}

// write writes an event, and flushes.
func write(w http.ResponseWriter, lines ...string) {
	io.WriteString(w, strings.Join(lines, "\n")+"\n\n")
	w.(http.Flusher).Flush()
}

// event writes an event with a name, whose data has the event's number at the end.
func (a *answer) event(name, data string, args ...any) {
	a.seq++
	write(a.w, "event: "+name, fmt.Sprintf("data: {"+data, args...))
}

// head has the first members of a chunk.
func (a *answer) head() string {
	return `"id": "` + a.req.ID + `", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent"`
}

func (a *answer) delta(member, text string) {
	write(a.w, fmt.Sprintf(`data: {%s, "choices": [{"index": 0, "delta": {"%s": %s}, "finish_reason": null}]}`, a.head(), member, ASCII(text)))
}

const chatUsage = `"usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}`

// The forms of answers by what a request asks for.
var (
	chat = form{
		contentType: "text/event-stream",
		begin: func(a *answer) {
			a.w.Header().Set("X-Hermes-Session-Id", a.req.Session)
			a.delta("role", "assistant")
		},
		text: func(a *answer, text string) { a.delta("content", text) },
		end: func(a *answer) {
			write(a.w, `data: {`+a.head()+`, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], `+chatUsage+`}`)
			write(a.w, "data: [DONE]")
		},
	}
	wholeChat = form{
		contentType: "application/json",
		end: func(a *answer) {
			fmt.Fprintf(a.w, `{"id": "%s", "object": "chat.completion", "created": 1795164799, "model": "hermes-agent", "choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}], `+chatUsage+`}`,
				a.req.ID, ASCII(a.said.String()))
		},
	}
	responses = form{
		contentType: "text/event-stream",
		begin: func(a *answer) {
			a.event("response.created", `"type": "response.created", `+response, a.req.ID, "in_progress", a.seq)
		},
		text: func(a *answer, text string) {
			a.event("response.output_text.delta", `"type": "response.output_text.delta", "delta": %s, "sequence_number": %d}`, ASCII(text), a.seq)
		},
		end: func(a *answer) {
			a.event("response.completed", `"type": "response.completed", `+response, a.req.ID, "completed", a.seq)
		},
	}
	wholeResponse = form{
		contentType: "application/json",
		end: func(a *answer) {
			fmt.Fprintf(a.w, `{"id": "%s", "object": "response", "created_at": 1795164799, "status": "completed", "model": "hermes-agent", "output": [], "usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}}`, a.req.ID)
		},
	}
	session = form{
		contentType: "text/event-stream",
		begin: func(a *answer) {
			a.event("run.started", `"user_message": {"role": "user", "content": "hi"}, `+a.tail())
			a.event("message.started", `"message": {"id": "msg_1", "role": "assistant"}, `+a.tail())
		},
		text: func(a *answer, text string) {
			a.event("assistant.delta", `"message_id": "msg_1", "delta": %s, `+a.tail(), ASCII(text))
		},
		end: func(a *answer) {
			a.event("assistant.completed", `"message_id": "msg_1", "content": %s, "completed": true, "partial": false, "interrupted": false, `+a.tail(), ASCII(a.said.String()))
			a.event("run.completed", `"message_id": "msg_1", "completed": true, "partial": false, "interrupted": false, `+a.tail())
			a.event("done", a.tail())
		},
	}
)

const response = `"response": {"id": "%s", "object": "response", "created_at": 1795164799, "status": "%s", "model": "hermes-agent", "output": []}, "sequence_number": %d}`

// tail has the last members of an event of a session.
func (a *answer) tail() string {
	return `"session_id": "s1", "run_id": "` + a.req.ID + `", "seq": ` + strconv.Itoa(a.seq+1) + `, "ts": 1795327604.7}`
}

// formOf returns the form that a request asks for.
func formOf(path string, stream bool) form {
	switch {
	case strings.HasSuffix(path, "/chat/stream"):
		return session
	case path == "/v1/responses" && stream:
		return responses
	case path == "/v1/responses":
		return wholeResponse
	case stream:
		return chat
	}
	return wholeChat
}
