package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// completion is an answer that is not streamed.
func completion(content, usage string) string {
	return `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, "message": {"role": "assistant", "content": "` +
		content + `"}, "finish_reason": "stop"}], "usage": {` + usage + `}}`
}

const (
	zeroTokens = `"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0`
	someTokens = `"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18`
)

// answered returns an exchange whose next handler has answered with body in the pieces.
func answered(t *testing.T, settings []setting, fields []string, pieces ...string) *exchange {
	t.Helper()
	x := begin(t, settings...)
	x.AnswerWhole(strings.Join(pieces, ""), fields...)
	x.Write(pieces...)
	x.Ret(nil).WantSwallowed(t)
	return x
}

func TestFailedAnswerGetsAStatus(t *testing.T) {
	recorded, err := os.ReadFile("../testdata/captures/g0-v0.8.0/nonstream.failed_result.http")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(strings.ReplaceAll(string(recorded), "\r\n", "\n"), "\n\n")
	x := begin(t)
	x.AnswerWhole(body, "Etag", `"1"`, "Trailer", "X-Sum")
	x.Write(body[:100])
	x.Flush()
	x.Write(body[100:])
	x.WantLog() // nothing leaves before it is known what it is
	x.Ret(nil).WantSwallowed(t)
	equal(t, x.Rec.Status, http.StatusBadGateway, "status")
	x.WantBody(`{"error":{"message":"API call failed after 3 retries: Error code: 401 - invalid api key","type":"server_error",` +
		`"param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}` + "\n")
	for name, want := range map[string]string{
		"X-Hermes-Session-Id": "b58e0870", "X-Hermes-Completed": "false", "X-Hermes-Partial": "false",
		"X-Should-Retry": "false", "Content-Type": "application/json", "Etag": "", "Trailer": "", "Content-Length": fmt.Sprint(x.Rec.Body.Len()),
	} {
		equal(t, x.Rec.Sent.Get(name), want, name)
	}
	res := x.Result()
	if res.Outcome != "agent_incomplete" || res.Status != http.StatusBadGateway || res.Model != "hermes-agent" {
		t.Errorf("the observer observed %+v", res)
	}
}

func TestGoodAnswerLeavesAsItCame(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			body := completion("Hello", someTokens)
			x := begin(t, option(everything))
			x.AnswerWhole(body, "Etag", `"1"`)
			x.Write(body[:7])
			want := []string{"header 200", "write " + body}
			if flushed {
				x.Flush()
				want = append(want, "flush")
			}
			advance(time.Hour) // no deadline is ours
			x.Write(body[7:])
			x.WantLog()
			x.Ret(nil).WantSwallowed(t)
			x.WantLog(want...)
			if x.Rec.Sent.Get("Etag") == "" || x.Rec.Sent.Get("Content-Length") != fmt.Sprint(len(body)) {
				t.Errorf("the header was %v", x.Rec.Sent)
			}
			if res := x.Result(); res.Outcome != proxy.OutcomeOK || !res.Whole || res.FinishReason != "stop" || res.OutputTokens != 9 {
				t.Errorf("the observer observed %+v", res)
			}
		})
	}
}

// TestSecretsOfAnAnswerThatFailed leave neither its body nor its header.
func TestSecretsOfAnAnswerThatFailed(t *testing.T) {
	const said, clean = "Error code: 401 - bad key sk-abcdEFGH1234567890", "Error code: 401 - bad key [redacted]"
	failed := func(message string) string {
		answer := strings.Replace(completion(message, someTokens), `"stop"`, `"error"`, 1)
		return strings.TrimSuffix(answer, "}") + `, "hermes": {"failed": true, "error": "` + message + `"}}`
	}
	x := answered(t, nil, []string{"X-Hermes-Error", said}, failed(said))
	x.WantBody(failed(clean))
	h := x.Rec.Header()
	if got := h.Get("X-Hermes-Error"); got != clean || h.Get("Content-Length") != fmt.Sprint(len(failed(clean))) || x.Rec.Status != http.StatusOK {
		t.Errorf("status %d, X-Hermes-Error %q, Content-Length %q", x.Rec.Status, got, h.Get("Content-Length"))
	}
}

// What Hermes 0.22 writes into the text of a turn that failed has the provider's key in it.
// A turn of /v1/responses gets a status, like one of chat completions; a client that asks for it
// again gets it as it is, without the key.
func TestTurnsThatFailedAtTheProvider(t *testing.T) {
	const key = "sk-abcdEFGH1234567890"
	response := `{"id": "resp_1", "object": "response", "status": "completed", "created_at": 1, "model": "m", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "custom rejected your API key.\n\nProvider said: HTTP 401: ` +
		key + `"}]}], "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}`
	session := `{"object": "hermes.session.chat.completion", "session_id": "s1", "message": {"role": "assistant", "content": "No.\nProvider said: HTTP 401: ` + key + `"}, "usage": {}}`
	clean := func(s string) string { return strings.ReplaceAll(s, key, "[redacted]") }
	for name, c := range map[string]struct {
		path, method, in, want string
		status                 int
	}{
		"a response":     {"/v1/responses", "POST", response, `{"error":{"message":"custom rejected your API key.\n\nProvider said: HTTP 401: [redacted]","type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}` + "\n", 502},
		"of a profile":   {"/p/coder/v1/responses", "POST", response, "", 502},
		"asked again":    {"/v1/responses/resp_1", "GET", response, clean(response), 200},
		"a session":      {"/api/sessions/s1/chat", "POST", session, clean(session), 200},
		"of a profile's": {"/p/coder/api/sessions/s1/chat", "POST", session, clean(session), 200},
		"with usage":     {"/v1/responses", "POST", strings.Replace(response, `_tokens": 0`, `_tokens": 1`, 1), clean(strings.Replace(response, `_tokens": 0`, `_tokens": 1`, 1)), 200},
		"a good one":     {"/v1/responses", "POST", strings.Replace(response, "Provider said", "They said", 1), strings.Replace(response, "Provider said", "They said", 1), 200},
		"another path":   {"/v1/other", "POST", response, response, 200},
	} {
		t.Run(name, func(t *testing.T) {
			x := answered(t, []setting{path(c.path), method(c.method)}, nil, c.in[:40], c.in[40:])
			if c.want != "" {
				x.WantBody(c.want)
			}
			if x.Rec.Status != c.status || c.want != c.in && strings.Contains(x.Rec.Body.String(), key) {
				t.Errorf("status %d, %s", x.Rec.Status, x.Rec.Body.String())
			}
			if retry := x.Rec.Sent.Get("X-Should-Retry"); (retry == "false") != (c.status == 502) || x.Rec.Sent.Get("Content-Length") != fmt.Sprint(x.Rec.Body.Len()) {
				t.Errorf("the header was %v", x.Rec.Sent)
			}
			if told := len(x.Ends) > 0; told != (c.status == 502) || told && x.Result().Outcome != "agent_incomplete" {
				t.Errorf("the observer observed %+v", x.Ends)
			}
		})
	}
}

func TestAnswerWithReasoningIsRepaired(t *testing.T) {
	body, want := completion("<think>a</think>\\n\\nb", someTokens), completion(`b","reasoning_content":"a`, someTokens)
	x := answered(t, nil, []string{"Etag", `"1"`, "Content-Digest", "x"}, body)
	x.WantBody(want)
	h := x.Rec.Sent
	if h.Get("Content-Length") != fmt.Sprint(len(want)) || h.Get("Etag") != "" || h.Get("Content-Digest") != "" {
		t.Errorf("the header was %v", h)
	}
	x.wantObserved() // it is no stream
	if res := x.Result(); res.Outcome != proxy.OutcomeOK || res.Reasoning != 1 || res.ID != "chatcmpl-1" {
		t.Errorf("the observer observed %+v", res)
	}
}

// TestUsageOfAnswersIsRemembered, for the streams that come. Text passes, with a
// warning, even where real usage has been seen: a status would lose it.
func TestUsageOfAnswersIsRemembered(t *testing.T) {
	store := newMemory()
	for i, body := range []string{completion("Hello", zeroTokens), completion("Hello", someTokens), completion("Hello", zeroTokens)} {
		x := answered(t, []setting{option(func(o *proxy.Options) { o.Usage = store.of })}, nil, body)
		equal(t, x.Result().Outcome, proxy.OutcomeOK, fmt.Sprint("the outcome of answer ", i))
		equal(t, store.of("").Reported("hermes-agent"), i > 0, fmt.Sprint("reported after answer ", i))
	}
}

// What may be no answer of the agent's passes as it comes. TestWhatMayBeAnAnswerIsKept has the forms of bodies,
// TestAnswerThatGrowsTooLarge their size.
func TestAnswersThatAreNotKept(t *testing.T) {
	body := completion("<think>a</think>b", zeroTokens)
	for name, c := range map[string]struct {
		set    setting
		fields []string
	}{
		"another path":       {set: path("/v1/models")},
		"HEAD":               {set: method(http.MethodHead)},
		"gzip":               {set: method(http.MethodPost), fields: []string{"Content-Encoding", "gzip"}},
		"another media type": {set: method(http.MethodPost), fields: []string{"Content-Type", "application/jsonl"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, c.set)
			x.AnswerWhole(body, c.fields...)
			x.Write(body[:80], body[80:])
			x.WantLog("header 200", "write "+body[:80], "write "+body[80:])
			x.Ret(nil).WantSwallowed(t)
			if len(x.Ends) > 0 {
				t.Errorf("the observer observed it: %+v", x.Ends)
			}
		})
	}
}

// TestAnswerThatGrowsTooLarge: an answer is kept up to the size of a frame, whether it says how
// long it is or not; one that is a byte larger passes as it comes, and loses nothing.
func TestAnswerThatGrowsTooLarge(t *testing.T) {
	body := completion("<think>a</think>b", someTokens)
	for more, kept := range map[int]bool{0: true, 1: false} {
		for _, length := range []bool{true, false} {
			x := begin(t, option(func(o *proxy.Options) { o.Rewrite.MaxFrame = len(body) - more }))
			if length {
				x.AnswerWhole(body)
			} else {
				x.AnswerWhole(body, "Content-Length", "")
			}
			x.Write(body[:50])
			if got := len(x.Rec.Log) == 0; got != (kept || !length) {
				t.Errorf("%d bytes more, with a length: %v: kept %v", more, length, got)
			}
			x.Write(body[50:])
			equal(t, len(x.Rec.Log) == 0, kept, fmt.Sprintf("%d bytes more, with a length: %v: kept to its end", more, length))
			x.Ret(nil).WantSwallowed(t)
			if got := x.Rec.Body.String() == body; got == kept {
				t.Errorf("%d bytes more, with a length: %v: the client was sent\n%s", more, length, x.Rec.Body.String())
			}
		}
	}
}

// TestTrailersOfARepairedAnswer leave with it, announced or not.
func TestTrailersOfARepairedAnswer(t *testing.T) {
	body := completion("<think>a</think>b", someTokens)
	for name, announced := range map[string]string{"X-Sum": "X-Sum", http.TrailerPrefix + "X-Sum": ""} {
		x := begin(t)
		x.AnswerWhole(body, "Trailer", announced)
		x.Write(body)
		x.Do(func() { x.W.Header().Set(name, "1") })
		x.Ret(nil).WantSwallowed(t)
		if got := x.Rec.Fields.Get(name); got != "1" || x.Rec.Sent.Get("Content-Length") != "" {
			t.Errorf("%s is %q, the header was %v", name, got, x.Rec.Sent)
		}
	}
}

// TestAnswerThatBreaksOff fails as it would without us, wherever it does: it is unknown
// what would have followed.
func TestAnswerThatBreaksOff(t *testing.T) {
	for _, body := range []string{completion("<think>a</think>b", someTokens), completion("", zeroTokens)} {
		for _, came := range []string{"", body[:50], body} {
			for _, how := range []string{"abort", "panic", "error"} {
				x := begin(t)
				x.AnswerWhole(body + " ")
				x.Write(came)
				endings[how](x).Want(t, how)
				x.WantBody(came)
				equal(t, x.Rec.Status, http.StatusOK, how+": status")
			}
		}
	}
}

// TestAnswerOfAClientThatLeft is not written.
func TestAnswerOfAClientThatLeft(t *testing.T) {
	body := completion("Hello", zeroTokens)
	x := begin(t)
	x.AnswerWhole(body)
	x.Write(body)
	x.Leave()
	x.Ret(nil).WantSwallowed(t)
	x.WantLog()
}

// TestWholeAnswersAreDrainedAtTheLimit, where they would be cut: those that are
// waited for, and those that have come in part. Without a limit they take their
// time.
func TestWholeAnswersAreDrainedAtTheLimit(t *testing.T) {
	for _, c := range []struct{ does, answers, outcome, goesOn string }{
		{"shutdown=5s +5s! stopped abort", "502:shutdown", "", ""},
		{"json { shutdown=5s +5s! stopped abort", "502:shutdown", "", ""},
		{"shutdown +1h running abort", "", "-", "abort"},
		{"json { shutdown +1h running abort", "{", "-", "abort"},
	} {
		scene{
			name: c.does, limits: "drain=1s", set: []setting{asking(`{"stream": false}`)},
			does: c.does, answers: c.answers, outcome: c.outcome, goesOn: c.goesOn,
		}.run(t)
	}
}

// TestWhatMayBeAnAnswerIsKept: as long as it may be one JSON object. JSON lines do not wait
// longer than for the second.
func TestWhatMayBeAnAnswerIsKept(t *testing.T) {
	for in, want := range map[string]bool{
		"": true, "{": true, `{"a": "}{\\"", "b": [{}]}`: true, "{} \t\r\n": true,
		" {": false, "[": false, "{}{": false, "{}\n{": false, `{"a": {}} x`: false, `{"a": "\\\\"}1`: false, "{}\x00": false,
	} {
		for _, pieces := range [][]string{{in}, strings.Split(in, "")} {
			x := begin(t)
			x.AnswerWhole(in, "Content-Length", "")
			x.Write(pieces...)
			equal(t, len(x.Rec.Log) == 0, want, fmt.Sprintf("%q is kept", in))
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(in)
		}
	}
}
