package clients

import (
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A cutUpstream is a Hermes that plays a recording for each question, and waits where its
// journey has a cut.
type cutUpstream struct {
	server   *upstream.Server
	asked    atomic.Int64
	journeys sync.Map // *journey, by number
	tapes    map[string]hermes.Recording
	texts    map[string]string // by kind of stream
}

func newCutUpstream(t *testing.T) *cutUpstream {
	t.Helper()
	const text = "Let me check.\n\nThere are 3 files."
	u := &cutUpstream{tapes: map[string]hermes.Recording{}, texts: map[string]string{}}
	for kind, name := range map[string]string{kindChat: "one_tool", kindResponse: "responses.one_tool", kindRun: "runs.one_tool"} {
		u.tapes[kind], u.texts[kind] = hermes.Recorded(t, modern+"/"+name), text
	}
	u.texts[kindWhole] = text
	u.server = upstream.New(t, u.play)
	return u
}

// numbered finds the number of a journey in a prompt, or in the id of a run.
var numbered = regexp.MustCompile(`cut-(\d+)-|/runs/run_0*(\d+)/`)

// ids are those of the recordings, which differ from question to question.
var ids = regexp.MustCompile(`(run_|resp_)[0-9a-f]{28,32}`)

func (u *cutUpstream) play(x *upstream.Exchange) {
	m := numbered.FindStringSubmatch(x.Req.URL.Path + string(x.Body))
	if m == nil && x.Req.Method == http.MethodGet { // Hermes ignores that a response is asked for as a stream
		upstream.AsJSON("200 OK", `{"id": "resp_1", "object": "response", "status": "in_progress", "output": []}`)(x)
		return
	}
	if m == nil {
		upstream.AsJSON("404 Not Found", `{"error": {"message": "no such question"}}`)(x)
		return
	}
	n := m[1] + m[2]
	found, _ := u.journeys.Load(n)
	j := found.(*journey)
	run := "run_" + fmt.Sprintf("%032s", n)
	switch path := x.Req.URL.Path; {
	case path == "/v1/runs":
		j.asked.Add(1)
		upstream.AsJSON("202 Accepted", fmt.Sprintf(`{"run_id": %q, "status": "started"}`, run))(x)
		return
	case j.kind == kindRun && j.reads.Add(1) > 1: // there is one queue
		upstream.AsJSON("404 Not Found", `{"error": {"message": "Run not found", "code": "run_not_found"}}`)(x)
		return
	}
	first := j.kind == kindRun || j.asked.Add(1) == 1
	if first {
		close(j.begun)
		defer close(j.over)
	}
	// holds reports whether the run goes on, after it has waited where the cut is.
	holds := func(at *regexp.Regexp, sent []byte) bool {
		if !first || at == nil && sent != nil || at != nil && !at.Match(sent) {
			return true
		}
		first = false
		if j.at.late {
			return x.Wait(j.cut)
		}
		return x.Wait(j.back)
	}
	at := j.at.behind[j.kind]
	if !holds(at, nil) {
		return
	}
	if j.kind == kindWhole {
		upstream.AsJSON("200 OK", fmt.Sprintf(`{"id": "chatcmpl-1", "object": "chat.completion", "created": 1795164827, "model": "hermes-agent",
	"choices": [{"index": 0, "message": {"role": "assistant", "content": %q}, "finish_reason": "stop"}],
	"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}}`, u.texts[kindWhole]))(x)
		return
	}
	tape := u.tapes[j.kind]
	x.Raw(tape.Header)
	var sent []byte
	for _, frame := range upstream.ByFrame(ids.ReplaceAll(tape.Body, []byte("${1}"+fmt.Sprintf("%032s", n)))) {
		x.Chunk(frame)
		if sent = append(sent, frame...); !holds(at, sent) {
			return
		}
	}
	x.End()
}

// cutSite returns the directives of a site with hermes_resume, which has the subdirectives. A
// way is cut at all places at once, and more of its runs than the default of max_detached may
// be without their clients at the same time.
func cutSite(resume, upstream string) string {
	return "hermes_resume {\nmax_detached 100\n" + resume + "\n}\nhermes\nreverse_proxy " + upstream
}
