package proxy_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// A scene is an exchange in words.
type scene struct {
	name string
	// does says what happens, one word after the other: upstream writes a word of written, or
	// the header of a stream or of heads. After +10s nothing has happened for 10 s; after +10s!
	// something has at their end, and nothing before. One of endings ends the handler. The
	// other words are those of happens.
	does string
	// answers has the words that the client is sent, with error:, partial: or failed: and a
	// word of codes for an error finish, or an error as JSON as its status and such a word, as in
	// 502:aborted. With ... anything may follow.
	answers string
	outcome string // what is observed: "" for the code of the answer or ok, "-" for nothing
	goesOn  string // how the guard lets the request go, as ending.want says
	limits  string // such as "idle=1m keepalive=10s"
	set     []setting
}

// written are the words that upstream writes, and those for the answer.
var written = map[string]string{
	"role": role, "text": text("a"), "half": text("a")[:30], "rest": text("a")[30:], "stop": stop, "done": done,
	"comment": comment, "hello": ": hello", "part": "d", "line": "\n", "space": text(" "), "held": text("`💻 ls"),
	"text-1": strings.TrimSuffix(text("a"), "\n"), "text-2": strings.TrimSuffix(text("a"), "\n\n"),
	"role-2": strings.TrimSuffix(role, "\n\n"), "torn-done": "data: [DO", "done-2": "data: [DONE]",
	"zero-stop": zeroStop, "full-stop": fullStop, "foreign": foreign, "array": "data: [1]\n\n", "{}": "{}", "{": `{"id": `, "tool": text("\\n`💻 ls`\\n"),
	"length":     strings.Replace(stop, `"stop"`, `"length"`, 1),
	"error-stop": strings.Replace(stop, `"stop"`, `"error"`, 1),
	"keepalive":  beat, "beat": beatForm, "tool-starts": toolEvent(`"emoji":"💻","label":"ls",`, `"running"`), "tool-ends": toolEvent("", `"completed","interrupted":true`),
	"tool-done": toolEvent("", `"completed"`),
}

// toolEvent returns an event of the tool that the word tool starts.
func toolEvent(shown, status string) string {
	return "event: hermes.tool.progress\ndata: {" + envelope + `[{"index":0,"delta":{},"finish_reason":null}],"tool":"terminal",` +
		shown + `"toolCallId":"call_ee64bef593d536091d1f0001","status":` + status + "}\n\n"
}

// codes are the short words for codes of errors.
var codes = map[string]string{
	"aborted": "upstream_aborted", "timeout": "upstream_timeout", "incomplete": "upstream_incomplete", "shutdown": "shutting_down",
}

// heads are headers of answers that are no streams of ours.
var heads = map[string]struct {
	status                int
	media, coding, length string
}{
	"json": {200, "application/json", "", ""}, "large": {200, "application/json", "", "9999999"}, "gzip": {200, "text/event-stream", "gzip", ""},
	"103": {103, "", "", ""}, "500": {500, "text/event-stream", "", ""}, "download": {200, "application/octet-stream", "", ""},
}

// endings are the ways in which a handler ends.
var endings = map[string]func(*exchange) ending{
	"abort":           (*exchange).Abort,
	"panic":           func(x *exchange) ending { return x.Panics("boom") },
	"error":           func(x *exchange) ending { return x.Ret(errTest) },
	"timeout":         func(x *exchange) ending { return x.Ret(timedOut{}) },
	"wrapped-timeout": func(x *exchange) ending { return x.Ret(fmt.Errorf("reading: %w", timedOut{})) },
	"end":             func(x *exchange) ending { return x.Ret(nil) },
	"waits":           (*exchange).UntilCancelled,
}

// run plays the scene, and checks how it ends.
func (s scene) run(t *testing.T) {
	t.Helper()
	s.runWith(t, nil)
}

// runWith is run with more words.
func (s scene) runWith(t *testing.T, words map[string]string) {
	t.Helper()
	bubble(t, s.name, func(t *testing.T) {
		begun := time.Now()
		x := begin(t, append(s.set, limits(s.limits), option(func(o *proxy.Options) {
			o.Upstream = func(*http.Request) string { return "10.0.0.1:8642" }
		}))...)
		x.words = words
		for word := range strings.FieldsSeq(s.does) {
			end, ends := endings[word]
			if !ends {
				x.happens(word)
				continue
			}
			end(x).Want(t, s.goesOn)
			s.checkResult(x, word, time.Since(begun))
			x.wantNothingMore()
		}
		s.checkAnswer(x)
		if _, code, cut := strings.Cut(s.answers, ":"); cut && !x.Over && code != "" {
			x.WantStopped()
		}
	})
}

// wantNothingMore has timers, some too late to be stopped, and the handler use the writer after
// the guard, which must not reach the inner one. That is sealed.
func (x *exchange) wantNothingMore() {
	x.T.Helper()
	advance(24 * time.Hour)
	proxy.FireLate(x.W)
	x.W.WriteHeader(http.StatusEarlyHints)
	x.W.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(x.W).Flush()
	if n, err := x.W.Write([]byte(role)); n != 0 || err == nil {
		x.T.Errorf("a late Write = %d, %v; want an error", n, err)
	}
}

// limits sets the options that look at a clock.
func limits(all string) setting {
	return option(func(o *proxy.Options) { proxytest.SetLimits(o, all) })
}

// checkAnswer checks what the client was sent.
func (s scene) checkAnswer(x *exchange) {
	x.T.Helper()
	var want strings.Builder
	begins := false
	for word := range strings.FieldsSeq(s.answers) {
		kind, code, failed := strings.Cut(word, ":")
		code = cmp.Or(codes[code], code)
		switch {
		case word == "...":
			begins = true
		case !failed:
			want.WriteString(x.word(word))
		case kind == "failed":
			want.WriteString(x.word("failed:" + code))
		case kind == "error" || kind == "partial":
			want.WriteString(errorFinish(code, kind == "partial"))
			if !strings.HasSuffix(strings.Join(x.Rec.Log, "|"), done+"|flush") {
				x.T.Errorf("the finish was not flushed last: %q", x.Rec.Log)
			}
		default:
			status, _ := strconv.Atoi(kind)
			x.WantAnswerOf(status, code, status != http.StatusServiceUnavailable)
			return
		}
	}
	if begins {
		if got := x.Rec.Body.String(); !strings.HasPrefix(got, want.String()) {
			x.T.Errorf("the client was sent\n%s\nwant at first\n%s", got, want.String())
		}
		return
	}
	x.WantBody(want.String())
}

// checkResult checks what was observed of the exchange, whose handler ended in the way how.
func (s scene) checkResult(x *exchange, how string, took time.Duration) {
	x.T.Helper()
	if x.Up.Context().Err() == nil {
		x.T.Error("the context of upstream's request is left")
	}
	equal(x.T, x.Streams.Open(), 0, "open streams")
	if s.outcome == "-" {
		if len(x.Ends) > 0 {
			x.T.Errorf("the observer observed %+v", x.Ends)
		}
		return
	}
	outcome := s.outcome
	if outcome == "" {
		_, outcome, _ = strings.Cut(s.answers, ":")
		outcome = cmp.Or(codes[outcome], outcome)
	}
	if outcome == "" {
		outcome = proxy.OutcomeOK
	}
	code := outcome
	if outcome == proxy.OutcomeOK || outcome == proxy.OutcomeClientGone || outcome == proxy.OutcomeEncoded {
		code = ""
	}
	res := x.Result()
	if res.Outcome != outcome || res.Code != code || res.Upstream != "10.0.0.1:8642" || res.Duration != took {
		x.T.Errorf("outcome %q, code %q, upstream %q after %s; want %q, %q, 10.0.0.1:8642, %s",
			res.Outcome, res.Code, res.Upstream, res.Duration, outcome, code, took)
	}
	if strings.HasPrefix(s.answers, "role") {
		reason := map[bool]string{true: "stop", false: "error"}[code == ""]
		if strings.Contains(s.answers, "length") {
			reason = "length"
		}
		if res.ID != "chatcmpl-1" || res.Model != "hermes-agent" || res.Status != 200 || outcome != proxy.OutcomeClientGone && res.FinishReason != reason {
			x.T.Errorf("id %q, model %q, status %d, finish reason %q; want %s", res.ID, res.Model, res.Status, res.FinishReason, reason)
		}
	}
	if id := x.words["id"]; id != "" && (res.ID != id || res.Chunks == 0) {
		x.T.Errorf("id %q, %d chunks, want %q and some", res.ID, res.Chunks, id)
	}
	wants := map[string]error{"abort": http.ErrAbortHandler, "error": errTest}
	switch want, told := wants[how]; {
	case told && !errors.Is(res.Err, want), how == "end" && res.Err != nil,
		how == "panic" && (res.Err == nil || !strings.Contains(res.Err.Error(), "boom")):
		x.T.Errorf("error %v after %s", res.Err, how)
	}
}

// word returns what a word stands for.
func (x *exchange) word(word string) string {
	x.T.Helper()
	s, known := x.words[word]
	if !known {
		s, known = written[word]
	}
	if !known {
		x.T.Fatalf("no word %q", word)
	}
	return s
}

// happens has a word of a scene happen.
func (x *exchange) happens(word string) {
	x.T.Helper()
	head, isHead := heads[word]
	switch {
	case strings.HasPrefix(word, "+"):
		x.passes(word)
	case isHead:
		x.Head(head.status, "Content-Type", head.media, "Content-Encoding", head.coding, "Content-Length", head.length)
	case strings.HasPrefix(word, "slowly:"): // for which the client takes a minute
		x.slowly(x.word(strings.TrimPrefix(word, "slowly:")), time.Minute)
	case word == "header":
		x.Stream()
	case word == "flush":
		x.Flush()
	case word == "reads": // upstream does, a byte of the request
		x.Do(func() { _, _ = x.Up.Body.Read(make([]byte, 1)) })
	case word == "reads-all":
		x.Do(func() { _, _ = io.Copy(io.Discard, x.Up.Body) })
	case word == "now":
		advance(0)
	case word == "late-timer": // which does nothing
		calls := len(x.Rec.Log)
		proxy.FireLate(x.W)
		if got := x.Rec.Log[calls:]; len(got) > 0 {
			x.T.Errorf("a timer that comes too late has sent %q", got)
		}
	case strings.HasPrefix(word, "shutdown"): // or with a limit, such as shutdown=5s
		limit, _ := time.ParseDuration(strings.TrimPrefix(word, "shutdown="))
		x.Streams.Shutdown(limit)
	case word == "running":
		x.WantRunning()
	case word == "stopped":
		x.WantStopped()
	case word == "leave", strings.HasSuffix(word, "-breaks"):
		x.WantRunning()
		x.left = true
		if word == "leave" {
			x.Leave()
		} else {
			x.breaks(word)
		}
		<-x.Up.Context().Done()
	default:
		x.Write(x.word(word))
	}
}

// breaks has the client's connection break when it is written to or flushed.
func (x *exchange) breaks(word string) {
	x.T.Helper()
	if word == "write-breaks" {
		x.Rec.OnWrite = func([]byte) (int, error) { return 0, errTest }
	} else {
		x.Rec.OnFlush = func() error { return errTest }
	}
	if n, err := x.TryWrite(text("a")); n != 0 || err != errTest {
		x.T.Errorf("Write = %d, %v; want 0 and the inner writer's error", n, err)
	}
}

// passes lets the time of a word pass.
func (x *exchange) passes(word string) {
	x.T.Helper()
	after, due := strings.CutSuffix(word[1:], "!")
	d, err := time.ParseDuration(after)
	if err != nil {
		x.T.Fatal(err)
	}
	calls, cancelled := len(x.Rec.Log), x.Up.Context().Err()
	advance(d - 1)
	if got := x.Rec.Log[calls:]; len(got) > 0 || context.Cause(x.Up.Context()) != nil && cancelled == nil {
		x.T.Errorf("before the end of %s the inner writer was called %q, cause %v", word, got, context.Cause(x.Up.Context()))
	}
	advance(1)
	if happened := len(x.Rec.Log) > calls || x.Up.Context().Err() != cancelled; happened != due {
		x.T.Errorf("at the end of %s something happened: %t", word, happened)
	}
	if n := len(x.Rec.Log); n > calls && x.Rec.Log[n-1] != "flush" {
		x.T.Errorf("%q was not flushed", x.Rec.Log[calls:])
	}
}
