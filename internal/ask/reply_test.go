package ask

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

const roleFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}` + "\n\n"

// TestLateRepliesSaySo after the first chunk, wherever the stream is cut, and change nothing else.
func TestLateRepliesSaySo(t *testing.T) {
	const sentence = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"So \"it\" is.\n"},"finish_reason":null}]}` + "\n\n"
	numbered := "id: stream_a/1\n" + roleFrame
	rest := "event: hermes.tool.progress\ndata: {}\n\n" + roleFrame + "data: [DONE]\n\n"
	huge := "data: " + strings.Repeat("x", maxFirstChunk) + "\n\n"
	for in, want := range map[string]string{
		numbered + rest:                      numbered + sentence + rest,
		": keepalive\n\n" + rest:             ": keepalive\n\nevent: hermes.tool.progress\ndata: {}\n\n" + roleFrame + sentence + "data: [DONE]\n\n",
		huge + rest:                          huge + "event: hermes.tool.progress\ndata: {}\n\n" + roleFrame + sentence + "data: [DONE]\n\n",
		"data: {\"error\":{}}\n\ndata: [DON": "data: {\"error\":{}}\n\ndata: [DON",
		"":                                   "",
		`{"status":410}`:                     `{"status":410}`,
	} {
		for _, size := range []int{1, 7, 1000, len(in) + 1} {
			w := httptest.NewRecorder()
			l := &lateWriter{ResponseWriter: w, sentence: "So \"it\" is.\n", frames: sse.Scanner{MaxFrame: maxFirstChunk}}
			for part := range slices.Chunk([]byte(in), size) {
				if wrote, err := l.Write(part); wrote != len(part) || err != nil {
					t.Fatal(wrote, err)
				}
			}
			if err := l.end(); err != nil || w.Body.String() != want {
				t.Errorf("in parts of %d: %v, %.300q, want %.300q", size, err, w.Body, want)
			}
		}
	}
}

// held returns Options with a ticket for command whose stream is held: rest is its rest, and upstream says
// result of its answer.
func held(t *testing.T, command string, result desk.Result, rest func(http.ResponseWriter, *http.Request) error) (*Options, *desk.Ticket) {
	t.Helper()
	o := &Options{Desk: desk.New(), Reply: true}
	owner, _, _ := o.Owner(chat(nil))
	ticket := o.Desk.Tickets(desk.Asker{Owner: owner, Timeout: time.Minute, Send: func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
		return result, nil
	}}).Ask(rewrite.ApprovalRequest{RunID: "run_1", RequestID: "r1", Command: command, Choices: []rewrite.ApprovalChoice{desk.Once}})
	ticket.Hold(rest)
	return o, ticket
}

// TestReplies: the answer to each is the rest of the stream, an error, or what to write instead.
func TestReplies(t *testing.T) {
	const whole, stream = rewrite.AnswerWhole, rewrite.AnswerStream
	for name, c := range map[string]struct {
		command string
		sent    desk.Result
		reply   rewrite.Reply // with the code
		form    rewrite.AnswerForm
		status  int
		media   string
		says    []string
	}{
		"approved":           {"ls", desk.Accepted, rewrite.Reply{IsReply: true, Approve: true}, stream, 200, "text/event-stream", []string{roleFrame}},
		"denied":             {"ls", desk.Accepted, rewrite.Reply{IsReply: true}, stream, 200, "text/event-stream", []string{roleFrame}},
		"answered before":    {"ls", desk.AlreadyAnswered, rewrite.Reply{IsReply: true}, stream, 200, "text/event-stream", []string{roleFrame, "answered before"}},
		"too late":           {"ls", desk.TooLate, rewrite.Reply{IsReply: true}, stream, 200, "text/event-stream", []string{roleFrame, "too late"}},
		"only to be denied":  {"", desk.Accepted, rewrite.Reply{IsReply: true, Approve: true}, stream, 400, "application/json", []string{`"approval_refused"`, "can only deny"}},
		"not accepted":       {"ls", desk.Refused, rewrite.Reply{IsReply: true}, stream, 502, "application/json", []string{`"approval_refused"`, "send the reply again"}},
		"not streamed":       {"ls", desk.Accepted, rewrite.Reply{IsReply: true}, whole, 200, "application/json", []string{`"chat.completion"`, "asks for a stream"}},
		"with other words":   {"ls", desk.Accepted, rewrite.Reply{}, stream, 200, "text/event-stream", []string{"data: [DONE]", "and nothing else"}},
		"words not streamed": {"ls", desk.Accepted, rewrite.Reply{}, whole, 200, "application/json", []string{`"chat.completion"`}},
	} {
		o, ticket := held(t, c.command, c.sent, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, roleFrame+"data: [DONE]\n\n")
			return err
		})
		w := httptest.NewRecorder()
		c.reply.Code = ticket.Code()
		if given := o.Secrets(chat(nil)); !maps.Equal(given, rewrite.Secrets{ticket.Code(): true, ticket.ID(): false}) {
			t.Errorf("%s: the client's secrets are %d", name, len(given))
		}
		answered, err := o.Answer(w, chat(nil), c.reply, c.form)
		if !answered || err != nil || w.Code != c.status || w.Header().Get("Content-Type") != c.media || (c.status >= 400) != (w.Header().Get("X-Should-Retry") == "false") {
			t.Errorf("%s: %v, %v, %d %v", name, answered, err, w.Code, w.Header())
		}
		for _, text := range c.says {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: no %q in %s", name, text, w.Body)
			}
		}
		if n := strings.Count(w.Body.String(), "\n\n"); c.says[0] == roleFrame && n != len(c.says)+1 {
			t.Errorf("%s: %d frames in %s", name, n, w.Body)
		}
		for _, form := range []rewrite.AnswerForm{whole, stream} {
			w := httptest.NewRecorder()
			if answered, err := o.Answer(w, chat(nil), rewrite.Reply{Code: "AAAA-AAAA", IsReply: form == stream}, form); answered || err != nil || w.Body.Len() > 0 {
				t.Errorf("%s, another code: %v, %v, %s", name, answered, err, w.Body)
			}
		}
	}
}

// TestReplyWhoseRestFails: the error is the handler's.
func TestReplyWhoseRestFails(t *testing.T) {
	fails := errors.New("the storage is away")
	o, ticket := held(t, "ls", desk.Accepted, func(http.ResponseWriter, *http.Request) error { return fails })
	answered, err := o.Answer(httptest.NewRecorder(), chat(nil), rewrite.Reply{Code: ticket.Code(), IsReply: true}, rewrite.AnswerStream)
	if !answered || !errors.Is(err, fails) {
		t.Errorf("%v, %v", answered, err)
	}
}

// TestReplyWhoseRestIsGone says so, and nothing of ids and keys, which a chat client does not send.
func TestReplyWhoseRestIsGone(t *testing.T) {
	const problem = `{"title":"Unknown stream","detail":"Send the request again with a new Idempotency-Key."}`
	for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable} {
		o, ticket := held(t, "ls", desk.TooLate, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Content-Length", strconv.Itoa(len(problem)))
			w.WriteHeader(status)
			_, err := io.WriteString(w, problem)
			return err
		})
		w := httptest.NewRecorder()
		answered, err := o.Answer(w, chat(nil), rewrite.Reply{Code: ticket.Code(), IsReply: true, Approve: true}, rewrite.AnswerStream)
		if !answered || err != nil {
			t.Fatal(answered, err)
		}
		if status == http.StatusServiceUnavailable { // it may be there later
			if w.Code != status || w.Body.String() != problem {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			continue
		}
		if got := w.Body.String(); w.Code != http.StatusGone || !strings.Contains(got, codeGone) || strings.Contains(got, "Idempotency-Key") ||
			w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Content-Length") != "" {
			t.Errorf("%d: answered with %d %v %s", status, w.Code, w.Header(), got)
		}
	}
}
