package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// asker offers the same way to answer each request.
type asker struct {
	offer rewrite.Approval
	done  []string
}

func (a *asker) Ask(rewrite.ApprovalRequest) rewrite.Approval { return a.offer }
func (a *asker) Done(id string) rewrite.ApprovalOutcome {
	a.done = append(a.done, id)
	return ""
}

// asks lets the exchange ask, and split as split says.
func asks(a *asker, split func(x *http.Request) bool) setting {
	return option(func(o *proxy.Options) {
		o.Approvals.Ask = func(r *http.Request) (rewrite.Approvals, func() bool) {
			if split == nil {
				return a, nil
			}
			return a, func() bool { return split(r) }
		}
	})
}

const (
	approvalEvent = "event: approval.request\ndata: {\"command\":\"rm x\",\"request_id\":\"r1\",\"run_id\":\"chatcmpl-1\",\"choices\":[\"once\"]}\n\n"
	asked         = "event: approval.request\ndata: {" + envelope + `[{"index":0,"delta":{},"finish_reason":null}],"command":"rm x","request_id":"r1","run_id":"chatcmpl-1","hermes_choices":["once"],"hermes_approval_`
)

var reply = rewrite.Approval{Code: "K7QF-2M9D"}

// paragraph is the text that asks for the reply.
const paragraph = "\\n\\n`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm x`"

// The answer ends in one write. The split comes between that and the next, and what follows is an answer of
// its own, with keepalives, an end and an error finish.
func TestAnswerIsSplitBetweenTwoWrites(t *testing.T) {
	bubble(t, "one write", func(t *testing.T) {
		var x *exchange
		a := &asker{offer: reply}
		x = begin(t, limits("keepalive=10s"), asks(a, func(r *http.Request) bool {
			if r != x.R {
				t.Error("another request is split")
			}
			x.Rec.Log = append(x.Rec.Log, "split")
			return true
		}))
		x.Stream()
		x.Write(role + text("a") + approvalEvent + text("b"))
		x.WantLog("header 200", "write "+role+text("a")+asked+`code":"K7QF-2M9D"}`+"\n\n"+text(paragraph)+stop+done, "flush", "split", "write "+role+text("b"), "flush")
		advance(10 * time.Second)
		x.Write(fullStop + done)
		x.Ret(nil).WantSwallowed(t)
		_, rest, _ := strings.Cut(x.Rec.Body.String(), done)
		equal(t, rest, role+text("b")+beatForm+fullStop+done, "the rest")
		equal(t, x.Result().Outcome, proxy.OutcomeOK, "outcome")
		if !slices.Equal(a.done, []string{""}) {
			t.Errorf("done %q", a.done)
		}
	})
	for name, does := range map[string]func(*exchange) ending{"abort": (*exchange).Abort, "end": func(x *exchange) ending { return x.Ret(nil) }} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, asks(&asker{offer: reply}, func(*http.Request) bool { return true }))
			x.Stream()
			x.Write(role, approvalEvent)
			does(x).WantSwallowed(t)
			_, rest, _ := strings.Cut(x.Rec.Body.String(), done)
			code := map[string]string{"abort": rewrite.CodeAborted, "end": rewrite.CodeIncomplete}[name]
			equal(t, rest, role+errorFinish(code, false), "the rest")
		})
	}
}

// Where the answer cannot be split after all, upstream's request ends, and the command does not run.
func TestAnswerThatCannotBeSplit(t *testing.T) {
	bubble(t, "refused", func(t *testing.T) {
		a := &asker{offer: reply}
		x := begin(t, asks(a, func(*http.Request) bool { return false }))
		x.Stream()
		if _, err := x.TryWrite(role + approvalEvent + text("b")); err == nil {
			t.Error("upstream is read on")
		}
		if x.Up.Context().Err() == nil {
			t.Error("upstream's request goes on")
		}
		x.Ret(nil)
		if body := x.Rec.Body.String(); !strings.HasSuffix(body, stop+done) || strings.Contains(body, text("b")) {
			t.Errorf("%q", body)
		}
		if !slices.Contains(a.done, "") {
			t.Errorf("done %q", a.done)
		}
	})
	bubble(t, "without a split", func(t *testing.T) {
		x := begin(t, asks(&asker{offer: rewrite.Approval{URL: "https://h/T", Code: "K7QF-2M9D"}}, nil))
		x.Stream()
		x.Write(role + approvalEvent + text("b") + fullStop + done)
		x.Ret(nil).WantSwallowed(t)
		x.WantBody(role + asked + `url":"https://h/T"}` + "\n\n" + text("b") + fullStop + done)
	})
}

// A client that leaves ends what it was asked.
func TestRequestsEndWithTheirClient(t *testing.T) {
	bubble(t, "leaves", func(t *testing.T) {
		a := &asker{offer: rewrite.Approval{URL: "https://h/T"}}
		x := begin(t, asks(a, nil))
		x.Stream()
		x.Write(role + approvalEvent)
		if len(a.done) > 0 {
			t.Errorf("done %q", a.done)
		}
		x.Leave()
		x.Ret(nil)
		if !slices.Equal(a.done, []string{""}) {
			t.Errorf("done %q", a.done)
		}
	})
}

// A reply is answered, and does not go to upstream. What is no reply goes there as it does without replies.
func TestReplies(t *testing.T) {
	const body = `{"stream": true, "messages": [{"role": "assistant", "content": "x` + paragraph + `"}, {"role": "user", "content": " Approve k7qf–2m9d.\n"}]}`
	const whole = `{"messages": [{"role": "user", "content": "please approve K7QF-2M9D"}]}`
	const healed = `{"stream": true, "messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "Approve"}]}`
	errRest := errors.New("gone")
	for name, c := range map[string]struct {
		path, body string
		history    proxy.History
		handled    bool
		err        error
		upstream   string // gets this; "" if it gets nothing
	}{
		"answered":       {chatPath, body, "", true, nil, ""},
		"with an error":  {chatPath, body, "", true, errRest, ""},
		"kept histories": {chatPath, body, proxy.HistoryKeep, true, nil, ""},
		"not ours":       {chatPath, body, "", false, nil, healed},
		"not ours, kept": {chatPath, body, proxy.HistoryKeep, false, nil, body},
		"no chat":        {"/v1/other", body, "", true, nil, healed},
		"no reply":       {chatPath, `{"messages": []}`, "", true, nil, `{"messages": []}`},
		"names a code":   {chatPath, whole, "", true, nil, ""},
		"in a session":   {"/api/sessions/s/chat", `{"message": "deny K7QF 2M9D"}`, "", true, nil, `{"message": "deny"}`},
		"in a kept one":  {"/api/sessions/s/chat", `{"message": "deny K7QF 2M9D"}`, proxy.HistoryKeep, true, nil, `{"message": "deny K7QF 2M9D"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, called := "", 0
			secrets := func(*http.Request) rewrite.Secrets { return rewrite.Secrets{"K7QF-2M9D": true} }
			p := proxy.New(proxy.Options{Histories: proxy.Histories{History: c.history}, Approvals: proxy.Approvals{Secrets: secrets, Reply: func(w http.ResponseWriter, r *http.Request, m rewrite.Reply, asked rewrite.AnswerForm) (bool, error) {
				called++
				if c.body == whole {
					equal(t, m, rewrite.Reply{Code: "K7QF-2M9D"}, "what the message says")
					equal(t, asked, rewrite.AnswerWhole, "what it asks for")
				} else {
					equal(t, m, rewrite.Reply{Code: "K7QF-2M9D", IsReply: true, Approve: true}, "the reply")
					equal(t, asked, rewrite.AnswerStream, "what it asks for")
				}
				if c.handled && c.err == nil {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = w.Write([]byte(role))
				}
				return c.handled, c.err
			}}})
			rec := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			err := p.Serve(rec, r, func(_ http.ResponseWriter, r *http.Request) error {
				b, _ := io.ReadAll(r.Body)
				got = string(b)
				return nil
			})
			if !errors.Is(err, c.err) || c.err != nil && err == nil {
				t.Errorf("error %v, want %v", err, c.err)
			}
			equal(t, got, c.upstream, "what upstream gets")
			answered := c.upstream == "" && c.err == nil
			equal(t, bytes.Equal(rec.Body.Bytes(), []byte(role)), answered, "answered")
			if want := c.path == chatPath && c.body != `{"messages": []}`; (called > 0) != want {
				t.Errorf("called %d times", called)
			}
		})
	}
}
