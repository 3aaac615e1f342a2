package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// memoryOf is the memory of one client.
type memoryOf map[rewrite.Turn][]rewrite.ToolRun

func (m memoryOf) Empty() bool                                      { return len(m) == 0 }
func (m memoryOf) Recall(t rewrite.Turn) []rewrite.ToolRun          { return m[nowhere(t)] }
func (m memoryOf) Remember(t rewrite.Turn, tools []rewrite.ToolRun) { m[nowhere(t)] = tools }

// nowhere returns the turn without its Past.
func nowhere(t rewrite.Turn) rewrite.Turn {
	t.Past = 0
	return t
}

// asking sends a chat through a Proxy with the memory, whose upstream answers with frames. It returns what
// upstream got.
func asksWith(t *testing.T, o proxy.Options, path, body, frames string, header ...string) (got string) {
	t.Helper()
	h := proxy.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, frames)
	}))
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	return got
}

const (
	asksFirst  = `{"stream":true,"messages":[{"role":"user","content":"u1"}]}`
	asksSecond = `{"stream":true,"messages":[{"role":"user","content":"u1"},{"role":"assistant","content":"Done."},{"role":"user","content":"u2"}]}`
	ranTool    = "event: hermes.tool.progress\ndata: {\"tool\":\"terminal\",\"emoji\":\"💻\",\"label\":\"ls\",\"toolCallId\":\"c\",\"status\":\"running\"}\n\n" +
		"event: hermes.tool.progress\ndata: {\"tool\":\"terminal\",\"toolCallId\":\"c\",\"status\":\"completed\"}\n\n"
	theRecord = `[Note by the operator of this chat; the user did not write it. During the answer above, these tools ran:]\n- terminal \"ls\": completed\n[End of the note. What follows is the user's.]\n\n`
)

// What ran during an answer is in front of the next question, and nowhere else (contract section 8).
func TestAnswersAreRemembered(t *testing.T) {
	m := memoryOf{}
	withMemory := func(change ...func(o *proxy.Options)) proxy.Options {
		o := proxy.DefaultOptions()
		o.Memory = func(*http.Request) rewrite.Memory { return m }
		for _, f := range change {
			f(&o)
		}
		return o
	}
	keep := func(o *proxy.Options) { o.History = proxy.HistoryKeep }
	answer := role + ranTool + text("Done.") + fullStop + done
	for _, other := range []struct {
		path   string
		header []string
		o      proxy.Options
	}{
		{chatPath, []string{proxy.SessionIDHeader, "s"}, withMemory()},
		{chatPath, nil, withMemory(keep)},
		{chatPath, nil, withMemory(func(o *proxy.Options) { o.Identity.Session = func(*http.Request) string { return "ada" } })},
		{chatPath, nil, withMemory(func(o *proxy.Options) { o.Memory = nil })},
		{responsesPath, nil, withMemory()},
	} {
		if asksWith(t, other.o, other.path, asksFirst, answer, other.header...); len(m) > 0 {
			t.Fatalf("%+v: %v", other, m)
		}
	}
	equal(t, asksWith(t, withMemory(), chatPath, asksFirst, answer), asksFirst, "the first request")
	equal(t, len(m), 1, "answers")
	equal(t, asksWith(t, withMemory(), chatPath, asksSecond, answer), strings.Replace(asksSecond, "u2", theRecord+"u2", 1), "the second request")
	equal(t, asksWith(t, withMemory(), chatPath, asksSecond, answer, proxy.SessionIDHeader, "s"), asksSecond, "a request that names a session")
	equal(t, asksWith(t, withMemory(keep), chatPath, asksSecond, answer), asksSecond, "history keep")
	equal(t, asksWith(t, withMemory(), responsesPath, asksSecond, answer), asksSecond, "another API")
}

// The rest of an answer that was split for a reply is that of the reply.
func TestRestOfASplitIsRemembered(t *testing.T) {
	m := memoryOf{}
	o := proxy.DefaultOptions()
	o.Memory = func(*http.Request) rewrite.Memory { return m }
	o.Approvals.Ask = func(*http.Request) (rewrite.Approvals, func() bool) {
		return &asker{offer: reply}, func() bool { return true }
	}
	tool := strings.SplitAfterN(ranTool, "\n\n", 2)
	asksWith(t, o, chatPath, asksFirst, role+text("Let me.")+tool[0]+approvalEvent+tool[1]+text("Done.")+fullStop+done)
	const history = `{"stream":true,"messages":[{"role":"user","content":"u1"},{"role":"assistant","content":"Let me.` + paragraph + `"},{"role":"user","content":"Approve k7qf2m9d"},` +
		`{"role":"assistant","content":"Done."},{"role":"user","content":"u2"}]}`
	o.Approvals.Secrets = func(*http.Request) rewrite.Secrets { return rewrite.Secrets{"K7QF-2M9D": false} }
	want := `{"stream":true,"messages":[{"role":"user","content":"u1"},{"role":"assistant","content":"Let me."},{"role":"user","content":"` +
		strings.Replace(theRecord, "completed", "waited for approval when the answer ended", 1) + `Approve"},{"role":"assistant","content":"Done."},{"role":"user","content":"` + theRecord + `u2"}]}`
	equal(t, asksWith(t, o, chatPath, history, role+fullStop+done), want, "the request after the rest")
}
