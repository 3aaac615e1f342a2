package ask

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// chat returns a client's request for a chat, which next answers as upstream a:1.
func chat(next behalf.Next) *http.Request {
	r := caddytest.Request(http.MethodPost, "/v1/chat/completions", `{"messages":[]}`, "Authorization", "Bearer secret")
	caddytest.AnswerBy(r, "a:1")
	return r.WithContext(behalf.Begin(r, next))
}

// dialog returns the Dialog of a chat whose upstream accepts each answer, and what it logs.
func dialog(o *Options) (*Dialog, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	o.Desk, o.Timeout, o.Logger, o.Upstream = desk.New(), time.Minute, zap.New(core), caddytest.Upstream
	r := chat(func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusOK); return nil })
	return Of(o.Begin(r)), logs
}

// request is a request for approval, whose id is a number.
func request(n int) rewrite.ApprovalRequest {
	return rewrite.ApprovalRequest{RunID: "run_1", RequestID: fmt.Sprint(n), Command: "ls", Choices: []rewrite.ApprovalChoice{desk.Once}, MayReply: true}
}

// TestUsersWithoutANameAreNotAsked, and do not answer: what a placeholder has for them says nothing, whatever its
// type is.
func TestUsersWithoutANameAreNotAsked(t *testing.T) {
	o := &Options{By: "user {http.test.user}", Desk: desk.New()}
	for _, c := range []struct {
		value any
		want  bool
	}{
		{nil, false}, {"", false}, {" \t", false}, {[]string{}, false}, {[]string(nil), false}, {[]any{}, false}, {map[string]any{}, false}, {[]string{""}, false},
		{"ada", true}, {[]string{"ada"}, true}, {0, true}, {false, true}, {http.MethodGet, true},
	} {
		r := chat(nil)
		caddytest.Replacer(r).Set("http.test.user", c.value)
		if _, by, ok := o.Owner(r); ok != c.want {
			t.Errorf("%#v: %v, by %q; want %v", c.value, ok, by, c.want)
		}
		if answered, err := o.Answer(nil, r, rewrite.Reply{Code: "AAAA-AAAA", IsReply: true}, rewrite.AnswerStream); answered || err != nil || o.Secrets(r) != nil {
			t.Errorf("%#v answers: %v, %v", c.value, answered, err)
		}
	}
}

// TestApprovalsAreLoggedOnceASecond, whether their clients are asked or not: an agent may ask as often as it
// likes. The first ones are all there, and at the level debug all of them are.
func TestApprovalsAreLoggedOnceASecond(t *testing.T) {
	for message, c := range map[string]struct {
		o     *Options
		ends  bool // each tool, before the next one starts
		level zapcore.Level
	}{
		"too many approvals are waiting, or upstream sent no id; the client was not asked": {&Options{}, false, zap.WarnLevel},
		"asked for approval": {&Options{}, true, zap.InfoLevel},
		"the placeholder of approvals by is empty, so the client was not asked for an approval":                        {&Options{By: "{http.test.user}"}, false, zap.WarnLevel},
		"the answer cannot continue without its client while it waits for a reply; see hermes_resume and max_detached": {&Options{Reply: true}, true, zap.WarnLevel},
	} {
		synctest.Test(t, func(t *testing.T) { // no time passes
			s, logs := dialog(c.o)
			for n := range 500 {
				s.Ask(request(n))
				if c.ends {
					s.Done(fmt.Sprint(n))
				}
			}
			logs = logs.FilterMessage(message)
			if n, debug := logs.FilterLevelExact(c.level).Len(), logs.FilterLevelExact(zap.DebugLevel).Len(); n != maxAskedAtOnce || n+debug < 490 {
				t.Errorf("%s: %d lines, %d at the level debug", message, n, debug)
			}
			s.Done("")
		})
	}
}

// TestRunsWithoutAPath: nobody is asked for a run whose answers upstream would not get.
func TestRunsWithoutAPath(t *testing.T) {
	s, _ := dialog(&Options{Reply: true})
	q := request(1)
	q.RunID = "../x"
	if offer := s.Ask(q); offer != (rewrite.Approval{NoReply: true}) || s.Done("") != "" {
		t.Errorf("offered %+v", offer)
	}
}

// TestOutcomes: what became of a request when its tool ends, and what waits until then.
func TestOutcomes(t *testing.T) {
	for choice, want := range map[rewrite.ApprovalChoice]rewrite.ApprovalOutcome{desk.Once: "", desk.Deny: rewrite.ApprovalDenied, "": rewrite.ApprovalExpired} {
		s, _ := dialog(&Options{Link: "https://h/approve"})
		offer := s.Ask(request(1))
		ticket, ok := s.o.Desk.Find(offer.URL[len("https://h/approve/"):])
		if !ok || offer.DenyOnly || len(s.Pending(time.Now())) != 1 {
			t.Fatalf("offered %+v", offer)
		}
		if choice != "" {
			if result, err := ticket.Answer(context.Background(), choice, desk.Page); result != desk.Accepted {
				t.Errorf("%v, %v", result, err)
			}
		}
		s.Ask(request(2))
		if got := s.Done("1"); got != want || len(s.Pending(time.Now())) != 1 {
			t.Errorf("%q: %q, %d wait", choice, got, len(s.Pending(time.Now())))
		}
		if again := s.Ask(request(1)); again != (rewrite.Approval{}) {
			t.Errorf("%q: read again, it offers %+v", choice, again)
		}
		if s.Done(""); s.Pending(time.Now()) != nil {
			t.Error("at the end something waits")
		}
	}
}
