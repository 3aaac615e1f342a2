package ask

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
			for part := range bytes.Lines([]byte(in)) {
				for len(part) > 0 {
					n := min(size, len(part))
					if wrote, err := l.Write(bytes.Clone(part[:n])); wrote != n || err != nil {
						t.Fatal(wrote, err)
					}
					part = part[n:]
				}
			}
			if err := l.end(); err != nil || w.Body.String() != want {
				t.Errorf("in parts of %d: %v, %.300q, want %.300q", size, err, w.Body, want)
			}
		}
	}
}

// TestOnlyLateRepliesSaySo.
func TestOnlyLateRepliesSaySo(t *testing.T) {
	for result, has := range map[desk.Result]bool{desk.Accepted: false, desk.AlreadyAnswered: true, desk.TooLate: true} {
		if got := sentences[result] != ""; got != has {
			t.Errorf("%v: %t", result, got)
		}
	}
}

// TestReplyWhoseRestIsGone says so, and nothing of ids and keys, which a chat client does not send.
func TestReplyWhoseRestIsGone(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable} {
		d := desk.New()
		o := &Options{Desk: d, Reply: true}
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		owner, _, _ := o.Owner(r)
		ticket := d.Tickets(desk.Asker{Owner: owner, Timeout: time.Minute, Send: func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
			return desk.TooLate, nil
		}}).Ask(rewrite.ApprovalRequest{RunID: "run_1", RequestID: "r1", Command: "ls", Choices: []rewrite.ApprovalChoice{desk.Once}})
		const problem = `{"title":"Unknown stream","detail":"Send the request again with a new Idempotency-Key."}`
		ticket.Hold(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Content-Length", strconv.Itoa(len(problem)))
			w.WriteHeader(status)
			_, err := io.WriteString(w, problem)
			return err
		})
		w := httptest.NewRecorder()
		answered, err := o.Answer(w, r, rewrite.Reply{Code: ticket.Code(), IsReply: true, Approve: true}, rewrite.AnswerStream)
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
