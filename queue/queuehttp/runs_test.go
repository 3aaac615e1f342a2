package queuehttp_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
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
	did   func() // when a run has begun, nil for nothing
}

// keeps lets requests wait for one of the places.
func keeps(p *places) setting {
	return option(func(o *options) {
		o.queue.Turn = func(*http.Request) (*queue.Turn, error) {
			return p.lines.Join("a", queue.Options{Runs: 1, Wait: time.Minute, Waiting: 1}, queue.Client{})
		}
		o.queue.RunBegan = func(_ *http.Request, id string, t *queue.Turn) {
			p.began, p.turns = append(p.began, id), append(p.turns, t)
			if p.did != nil {
				p.did()
			}
		}
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

// TestRunsKeepTheirPlaces: the run that an answer says has begun has the place, and the answer
// passes byte for byte.
func TestRunsKeepTheirPlaces(t *testing.T) {
	large := `{"run_id": "run_1", "x": "` + strings.Repeat("x", 16<<10) + `"}`
	for name, c := range map[string]struct {
		status int // 0 for none
		media  string
		body   []string
		want   bool // the run has begun
	}{
		"accepted":                    {202, "application/json; charset=utf-8", []string{accepted}, true},
		"with a line feed":            {202, "application/json", []string{accepted + "\n"}, true},
		"byte for byte":               {202, "application/json", strings.Split(accepted, ""), true},
		"with a line feed of its own": {202, "application/json", []string{accepted, "\n", "\n"}, true},
		"a run that waits":            {202, "application/json", []string{`{"run_id": "run_1", "status": "waiting_for_approval"}`}, true},
		"a run that is over":          {202, "application/json", []string{`{"run_id": "run_1", "status": "completed"}`}, false},
		"another status of success":   {200, "application/json", []string{accepted}, true},
		"created":                     {201, "application/json", []string{accepted}, true},
		"without a status":            {0, "application/json", []string{accepted}, true},
		"no id":                       {202, "application/json", []string{`{"status": "started"}`}, false},
		"compressed":                  {202, "application/json", []string{accepted}, false},
		"larger":                      {202, "application/json", []string{large}, false},
		"larger, in pieces":           {202, "application/json", []string{large[:100], large[100:]}, false},
		"nothing":                     {202, "application/json", nil, false},
		"no JSON":                     {202, "text/plain", []string{accepted}, false},
		"an error":                    {400, "application/json", []string{`{"error": {"message": "no"}, "run_id": "run_1"}`}, false},
		"no success":                  {503, "application/json", []string{accepted}, false},
		"a redirection":               {307, "application/json", []string{accepted}, false},
	} {
		bubble(t, name, func(t *testing.T) {
			var p places
			x := begin(t, path(runsPath), keeps(&p))
			if name == "compressed" {
				x.Do(func() { x.W.Header().Set("Content-Encoding", "gzip") })
			}
			if c.status == 0 {
				x.Do(func() { x.W.Header().Set("Content-Type", c.media) })
				x.Write(c.body...)
			} else {
				x.Answer(c.status, c.media, c.body...)
			}
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(strings.Join(c.body, ""))
			equal(t, x.Rec.Status, cmp.Or(c.status, 200), "status")
			equal(t, strings.Join(p.began, " "), map[bool]string{true: "run_1"}[c.want], "the run that has begun")
			equal(t, p.free(t), !c.want, "the place is free")
			if c.want {
				p.turns[0].Done()
				equal(t, p.free(t), true, "the place is free after the run")
			}
		})
	}
}

// forgets is an inner writer that keeps nothing.
type forgets struct{ *recorder }

func (forgets) Write(b []byte) (int, error) { return len(b), nil }

// TestLargeAnswersOfRunsAreNotKept: one that is too large to say that a run has begun passes.
func TestLargeAnswersOfRunsAreNotKept(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := begin(t, path(runsPath), keeps(new(places)), func(_ *options, _ *http.Request, rec *recorder) { rec.Wrapped = forgets{rec} })
		before := alone.Heap()
		piece := strings.Repeat("x", 1<<20)
		x.Answer(202, "application/json", slices.Repeat([]string{piece}, 16)...)
		if grown := alone.Heap() - before; grown > 4<<20 {
			t.Errorf("%d bytes are kept", grown)
		}
		x.Ret(nil).WantSwallowed(t)
	})
}

// TestRunBeginsBeforeItsClientKnows: what the client asks next finds the run.
func TestRunBeginsBeforeItsClientKnows(t *testing.T) {
	bubble(t, "in order", func(t *testing.T) {
		var p places
		x := begin(t, path(runsPath), keeps(&p))
		p.did = func() { equal(t, x.Rec.Body.String(), accepted[:9], "what the client knows") }
		x.Answer(202, "application/json", accepted[:9], accepted[9:])
		x.Ret(nil).WantSwallowed(t)
		equal(t, len(p.began), 1, "runs that have begun")
	})
}

// TestOtherAnswersKeepNoPlace, whatever they say.
func TestOtherAnswersKeepNoPlace(t *testing.T) {
	for name, settings := range map[string][]setting{
		"a response":  {path("/v1/responses")},
		"a session":   {path("/api/sessions/s/chat")},
		"no RunBegan": {path(runsPath), option(func(o *options) { o.queue.RunBegan = nil })},
		"no turn":     {path(runsPath), option(func(o *options) { o.queue.Turn = func(*http.Request) (*queue.Turn, error) { return nil, nil } })},
		"a GET":       {path(runsPath), method(http.MethodGet)},
	} {
		bubble(t, name, func(t *testing.T) {
			var p places
			x := begin(t, append([]setting{keeps(&p)}, settings...)...)
			x.Answer(202, "application/json", accepted)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(accepted)
			equal(t, len(p.began), 0, "what was said of runs")
			equal(t, p.free(t), true, "the place is free")
		})
	}
}

// TestRunWhoseHandlerFails afterwards goes on: upstream has begun it.
func TestRunWhoseHandlerFails(t *testing.T) {
	for how, does := range map[string]func(*exchange) ending{
		"abort": (*exchange).Abort, "panic": func(x *exchange) ending { return x.Panics("boom") }, "error": func(x *exchange) ending { return x.Ret(errTest) },
	} {
		bubble(t, how, func(t *testing.T) {
			var p places
			x := begin(t, path(runsPath), keeps(&p))
			x.Answer(202, "application/json", accepted)
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
		x.Leave()
		advance(9 * time.Second)
		if err := x.Up.Context().Err(); err != nil {
			t.Error("upstream's request has ended:", err)
		}
		x.Rec.OnWrite = func([]byte) (int, error) { return 0, errTest }
		x.Do(func() {
			x.W.Header().Set("Content-Type", "application/json")
			x.W.WriteHeader(202)
			_, _ = x.W.Write([]byte(accepted))
		})
		x.Ret(errTest)
		equal(t, strings.Join(p.began, " "), "run_1", "the run that has begun")
		equal(t, p.free(t), false, "the place is free")
	})
	bubble(t, "no answer comes", func(t *testing.T) {
		var p places
		x := begin(t, path(runsPath), keeps(&p))
		x.Leave()
		advance(10 * time.Second)
		if x.Up.Context().Err() == nil {
			t.Error("upstream's request goes on")
		}
		x.Ret(x.Up.Context().Err())
		equal(t, p.free(t), true, "the place is free")
	})
	for name, settings := range map[string][]setting{
		"another request": {path(chatPath)},
		"no RunBegan":     {path(runsPath), option(func(o *options) { o.queue.RunBegan = nil })},
		"not queued":      {path(runsPath), option(func(o *options) { o.queue.Queued = func(*http.Request) bool { return false } })},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, append([]setting{keeps(new(places))}, settings...)...)
			x.Leave()
			advance(0)
			if x.Up.Context().Err() == nil {
				t.Error("upstream's request goes on")
			}
			x.Ret(x.Up.Context().Err())
		})
	}
}
