package resume_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// checkFinish checks that a stream ends with an error with the code, whose events are
// numbered from n on.
func checkFinish(t *testing.T, got, id string, n int, code string) {
	t.Helper()
	if !strings.Contains(got, `"code":"`+code+`"`) || !strings.Contains(got, `"finish_reason":"error"`) || !strings.Contains(got, `"id":"chatcmpl-1"`) ||
		!strings.HasSuffix(got, numbered(id, n+2, "data: [DONE]\n\n")) {
		t.Errorf("the end is\n%s", got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if number, ok := strings.CutPrefix(line, "id: "+id+"/"); ok && number != strconv.Itoa(n) {
			t.Errorf("%q is the number of the event %d", number, n)
		} else if ok {
			n++
		}
	}
}

// TestToolsInCommentsEnd when the run does, although their comments have no blank lines in
// the log.
func TestToolsInCommentsEnd(t *testing.T) {
	const tool = `: hermes.tool.progress {"tool":"terminal","toolCallId":"call_1","status":"`
	next := func(w http.ResponseWriter, r *http.Request) error {
		return streams([]string{chunk + tool + "running\"}\n\n: keepalive\n\n", ""}, onlyOnce())(w, r)
	}
	inBubble(t, nil, next, func(t *testing.T, l *lab) {
		r := l.leaves(chat(key, "k", proxy.ProgressHeader, "comment"))
		time.Sleep(10 * time.Minute)
		l.over()
		got := l.send(chat("Last-Event-ID", r.id()+"/1")).want(http.StatusOK).rest()
		if !strings.HasPrefix(got, tool+"running\"}\n: keepalive\n"+tool+"completed\"}\ndata: {\"error\":") {
			t.Errorf("the end is\n%s", got)
		}
	})
}

// TestPanicOfARunThatWasCancelled is told once. If it is next's, the client
// gets a stream that is whole, with an error finish. If there is no such finish to be had, the
// stream breaks off.
func TestPanicOfARunThatWasCancelled(t *testing.T) {
	for _, ofNext := range []bool{true, false} {
		l := newLab(t, func(o *resume.Options) {
			if !ofNext {
				o.Store = &oddStore{Store: o.Store, read: func(ctx context.Context) log.Reader {
					if ctx.Err() != nil {
						panic("boom")
					}
					return nil
				}}
			}
		}, func(w http.ResponseWriter, r *http.Request) error {
			err := silent(w, r)
			if ofNext {
				panic("boom")
			}
			return err
		})
		r := l.send(chat(key, "k")).want(http.StatusOK)
		r.next()
		l.send(request{http.MethodDelete, chatPath + "/" + r.id(), "", nil}).want(http.StatusNoContent)
		if ofNext {
			checkFinish(t, r.rest(), r.id(), 2, "upstream_aborted")
		} else {
			r.broken()
		}
		if e := l.over(); e.Panicked == nil || !strings.Contains(e.Panicked.Error(), "boom") || !strings.Contains(e.Panicked.Error(), "finish_test.go") {
			t.Errorf("told is %v", e.Panicked)
		}
		until(t, "nothing is open", func() bool { return l.runs.Open() == 0 && l.runs.Stats().Readers == 0 })
	}
}
