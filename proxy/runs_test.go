package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

const (
	runsPath = "/v1/runs"
	accepted = `{"run_id": "run_1", "status": "started"}`
)

// places are those of a line with one place, and what is known of the runs that keep it.
type places struct {
	lines queue.Lines
	began []string
	turns []*queue.Turn
	over  []string
	did   func() // when a run has begun, nil for nothing
}

// keeps lets requests wait for one of the places.
func keeps(p *places) setting {
	return option(func(o *proxy.Options) {
		o.Turn = func(*http.Request) (*queue.Turn, error) {
			return p.lines.Join("a", queue.Options{Runs: 1, Wait: time.Minute, Waiting: 1}, queue.Client{})
		}
		o.RunBegan = func(_ *http.Request, id string, t *queue.Turn) {
			p.began, p.turns = append(p.began, id), append(p.turns, t)
			if p.did != nil {
				p.did()
			}
		}
		o.RunOver = func(_ *http.Request, id string) { p.over = append(p.over, id) }
	})
}

// free reports whether the place is.
func (p *places) free(t *testing.T) bool {
	t.Helper()
	turn, err := p.lines.Join("a", queue.Options{Runs: 1}, queue.Client{})
	if err == nil {
		turn.Done()
	}
	return err == nil
}

// answer has the handler answer with the status, the type and the pieces of a body.
func (x *exchange) answer(status int, media string, pieces ...string) {
	x.t.Helper()
	x.do(func() {
		x.w.Header().Set("Content-Type", media)
		x.w.WriteHeader(status)
	})
	x.write(pieces...)
}

// TestRunsKeepTheirPlaces: the run that an answer says has begun has the place, and the answer
// passes byte for byte.
func TestRunsKeepTheirPlaces(t *testing.T) {
	large := `{"run_id": "run_1", "x": "` + strings.Repeat("x", 16<<10) + `"}`
	for name, c := range map[string]struct {
		status int
		media  string
		body   []string
		want   bool
	}{
		"accepted":                    {202, "application/json; charset=utf-8", []string{accepted}, true},
		"with a line feed":            {202, "application/json", []string{accepted + "\n"}, true},
		"byte for byte":               {202, "application/json", strings.Split(accepted, ""), true},
		"with a line feed of its own": {202, "application/json", []string{accepted, "\n", "\n"}, true},
		"a run that waits":            {202, "application/json", []string{`{"run_id": "run_1", "status": "waiting_for_approval"}`}, true},
		"a run that is over":          {202, "application/json", []string{`{"run_id": "run_1", "status": "completed"}`}, false},
		"another status of success":   {200, "application/json", []string{accepted}, true},
		"created":                     {201, "application/json", []string{accepted}, true},
		"no id":                       {202, "application/json", []string{`{"status": "started"}`}, false},
		"an id that is no name":       {202, "application/json", []string{`{"run_id": "../chat"}`}, false},
		"an id that is no text":       {202, "application/json", []string{`{"run_id": 1}`}, false},
		"larger":                      {202, "application/json", []string{large}, false},
		"larger, in pieces":           {202, "application/json", []string{large[:100], large[100:]}, false},
		"cut":                         {202, "application/json", []string{accepted[:len(accepted)-1]}, false},
		"nothing":                     {202, "application/json", nil, false},
		"no JSON":                     {202, "text/plain", []string{accepted}, false},
		"two objects":                 {202, "application/json", []string{accepted + accepted}, false},
		"an error":                    {400, "application/json", []string{`{"error": {"message": "no"}, "run_id": "run_1"}`}, false},
		"no success":                  {503, "application/json", []string{accepted}, false},
		"a redirection":               {307, "application/json", []string{accepted}, false},
	} {
		bubble(t, name, func(t *testing.T) {
			var p places
			x := begin(t, path(runsPath), keeps(&p))
			x.answer(c.status, c.media, c.body...)
			x.ret(nil).wantSwallowed(t)
			x.wantBody(strings.Join(c.body, ""))
			equal(t, x.rec.status, c.status, "status")
			equal(t, strings.Join(p.began, " "), map[bool]string{true: "run_1"}[c.want], "the run that has begun")
			equal(t, len(p.over), 0, "runs that are over")
			equal(t, p.free(t), !c.want, "the place is free")
			if c.want {
				p.turns[0].Done()
				equal(t, p.free(t), true, "the place is free after the run")
			}
		})
	}
}

// TestCompressedAnswersSayNothing of runs: they are not read.
func TestCompressedAnswersSayNothing(t *testing.T) {
	for how, settings := range map[string][]setting{"POST": {path(runsPath)}, "GET": {path("/v1/runs/run_1"), method(http.MethodGet)}} {
		bubble(t, how, func(t *testing.T) {
			var p places
			x := begin(t, append(settings, keeps(&p))...)
			x.do(func() { x.w.Header().Set("Content-Encoding", "gzip") })
			x.answer(200, "application/json", `{"run_id": "run_1", "status": "`+map[string]string{"POST": "started", "GET": "completed"}[how]+`"}`)
			x.ret(nil).wantSwallowed(t)
			equal(t, len(p.began)+len(p.over), 0, "what was said of runs")
		})
	}
}

// TestRunBeginsBeforeItsClientKnows: what the client asks next finds the run.
func TestRunBeginsBeforeItsClientKnows(t *testing.T) {
	bubble(t, "in order", func(t *testing.T) {
		var p places
		x := begin(t, path(runsPath), keeps(&p))
		p.did = func() { equal(t, x.rec.body.String(), accepted[:9], "what the client knows") }
		x.answer(202, "application/json", accepted[:9], accepted[9:])
		x.ret(nil).wantSwallowed(t)
		equal(t, len(p.began), 1, "runs that have begun")
	})
}

// TestOtherAnswersKeepNoPlace, whatever they say.
func TestOtherAnswersKeepNoPlace(t *testing.T) {
	for name, settings := range map[string][]setting{
		"a response":  {path("/v1/responses")},
		"a session":   {path("/api/sessions/s/chat")},
		"no RunBegan": {path(runsPath), option(func(o *proxy.Options) { o.RunBegan = nil })},
		"no turn":     {path(runsPath), option(func(o *proxy.Options) { o.Turn = func(*http.Request) (*queue.Turn, error) { return nil, nil } })},
		"a GET":       {path(runsPath), method(http.MethodGet)},
	} {
		bubble(t, name, func(t *testing.T) {
			var p places
			x := begin(t, append([]setting{keeps(&p)}, settings...)...)
			x.answer(202, "application/json", accepted)
			x.ret(nil).wantSwallowed(t)
			x.wantBody(accepted)
			equal(t, len(p.began)+len(p.over), 0, "what was said of runs")
			equal(t, p.free(t), true, "the place is free")
		})
	}
}

// TestRunWhoseHandlerFails afterwards goes on: upstream has begun it.
func TestRunWhoseHandlerFails(t *testing.T) {
	for how, does := range map[string]func(*exchange) ending{
		"abort": (*exchange).abort, "panic": func(x *exchange) ending { return x.panics("boom") }, "error": func(x *exchange) ending { return x.ret(errTest) },
	} {
		bubble(t, how, func(t *testing.T) {
			var p places
			x := begin(t, path(runsPath), keeps(&p))
			x.answer(202, "application/json", accepted)
			does(x)
			equal(t, p.free(t), false, "the place is free")
		})
	}
}

// TestClientLeavesBeforeItKnowsItsRun: upstream may have begun it, and its answer is awaited.
func TestClientLeavesBeforeItKnowsItsRun(t *testing.T) {
	bubble(t, "the answer comes", func(t *testing.T) {
		var p places
		x := begin(t, path(runsPath), keeps(&p))
		x.leave()
		advance(9 * time.Second)
		if err := x.up.Context().Err(); err != nil {
			t.Error("upstream's request has ended:", err)
		}
		x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
		x.do(func() {
			x.w.Header().Set("Content-Type", "application/json")
			x.w.WriteHeader(202)
			_, _ = x.w.Write([]byte(accepted))
		})
		x.ret(errTest)
		equal(t, strings.Join(p.began, " "), "run_1", "the run that has begun")
		equal(t, p.free(t), false, "the place is free")
	})
	bubble(t, "no answer comes", func(t *testing.T) {
		var p places
		x := begin(t, path(runsPath), keeps(&p))
		x.leave()
		advance(10 * time.Second)
		if x.up.Context().Err() == nil {
			t.Error("upstream's request goes on")
		}
		x.ret(x.up.Context().Err())
		equal(t, p.free(t), true, "the place is free")
	})
	for name, settings := range map[string][]setting{
		"another request": {path(chatPath)},
		"no RunBegan":     {path(runsPath), option(func(o *proxy.Options) { o.RunBegan = nil })},
		"no turn":         {path(runsPath), option(func(o *proxy.Options) { o.Turn = nil })},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, append([]setting{keeps(new(places))}, settings...)...)
			x.leave()
			advance(0)
			if x.up.Context().Err() == nil {
				t.Error("upstream's request goes on")
			}
			x.ret(x.up.Context().Err())
		})
	}
}

// TestAnswersSayThatRunsAreOver: statuses, whoever asks, and events.
func TestAnswersSayThatRunsAreOver(t *testing.T) {
	const status, events, sse = "/p/work/v1/runs/run_1", "/v1/runs/run_1/events", "text/event-stream"
	const completed = `data: {"event": "run.completed", "run_id": "run_1"}` + "\n\n"
	state := func(of string) string { return `{"object": "hermes.run", "run_id": "run_1", "status": "` + of + `"}` }
	for name, c := range map[string]struct {
		method, path string
		status       int
		media, body  string
		want         bool
	}{
		"completed":             {"GET", status, 200, "application/json; charset=utf-8", state("completed"), true},
		"interrupted":           {"GET", status, 200, "application/json", state("interrupted"), true},
		"with a long output":    {"GET", status, 200, "application/json", `{"status": "completed", "output": "` + strings.Repeat("x", 1<<20) + `"}`, true},
		"forgotten":             {"GET", status, 404, "application/json", `{"error": {"message": "Run not found: run_1", "code": "run_not_found"}}`, true},
		"running":               {"GET", status, 200, "application/json", state("running"), false},
		"approval":              {"GET", status, 200, "application/json", state("waiting_for_approval"), false},
		"stopping":              {"POST", status + "/stop", 200, "application/json", state("stopping"), false},
		"stopped when over":     {"POST", status + "/stop", 200, "application/json", state("completed"), false},
		"deleted":               {"DELETE", status, 200, "application/json", state("completed"), false},
		"no such page":          {"GET", status, 404, "text/plain", "404: Not Found", false},
		"no JSON":               {"GET", status, 200, "text/html", state("completed"), false},
		"a response":            {"GET", "/v1/responses/run_1", 200, "application/json", state("completed"), false},
		"events":                {"GET", events, 200, sse, completed + ": stream closed\n\n", true},
		"events that break off": {"GET", events, 200, sse, `data: {"event": "message.delta", "run_id": "run_1"}` + "\n\n", false},
		"no events":             {"GET", events, 404, "application/json", `{"error": {"code": "run_not_found"}}`, false},
	} {
		bubble(t, name, func(t *testing.T) {
			var p places
			x := begin(t, method(c.method), path(c.path), keeps(&p))
			x.answer(c.status, c.media, c.body)
			x.ret(nil).wantSwallowed(t)
			if name != "events that break off" {
				x.wantBody(c.body)
			}
			equal(t, strings.Join(p.over, " "), map[bool]string{true: "run_1"}[c.want], "the run that is over")
		})
	}
	bubble(t, "nobody asks", func(t *testing.T) {
		x := begin(t, method("GET"), path(events))
		x.answer(200, sse, completed)
		x.ret(nil).wantSwallowed(t)
	})
	bubble(t, "the client has left", func(t *testing.T) {
		var p places
		x := begin(t, method("GET"), path(events), keeps(&p))
		x.answer(200, sse, completed)
		x.leave()
		x.abort()
		equal(t, strings.Join(p.over, " "), "run_1", "the run that is over")
	})
}

// TestLongStatusesAreNotKept: only their beginning is looked at.
func TestLongStatusesAreNotKept(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var p places
		x := begin(t, method("GET"), path("/v1/runs/run_1"), keeps(&p))
		x.answer(200, "application/json", `{"output": "`+strings.Repeat("x", 16<<10), `", "status": "completed"}`)
		x.ret(nil).wantSwallowed(t)
		equal(t, len(p.over), 0, "runs that are over")
	})
}
