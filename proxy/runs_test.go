package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// saysOver notes which runs are over.
func saysOver(over *[]string) setting {
	return option(func(o *proxy.Options) {
		o.RunOver = func(_ *http.Request, id string) { *over = append(*over, id) }
	})
}

// TestAnswersSayThatRunsAreOver: statuses, whoever asks, and events. Of a long status only the beginning is
// looked at, and of a compressed one nothing.
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
		"after a long output":   {"GET", status, 200, "application/json", `{"output": "` + strings.Repeat("x", 16<<10) + `", "status": "completed"}`, false},
		"compressed":            {"GET", status, 200, "application/json", state("completed"), false},
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
			var over []string
			x := begin(t, method(c.method), path(c.path), saysOver(&over))
			if name == "compressed" {
				x.Do(func() { x.W.Header().Set("Content-Encoding", "gzip") })
			}
			x.Answer(c.status, c.media, c.body[:len(c.body)/2], c.body[len(c.body)/2:])
			x.Ret(nil).WantSwallowed(t)
			if name != "events that break off" {
				x.WantBody(c.body)
			}
			equal(t, strings.Join(over, " "), map[bool]string{true: "run_1"}[c.want], "the run that is over")
		})
	}
	bubble(t, "nobody asks", func(t *testing.T) {
		x := begin(t, method("GET"), path(events))
		x.Answer(200, sse, completed)
		x.Ret(nil).WantSwallowed(t)
	})
	bubble(t, "the client has left", func(t *testing.T) {
		var over []string
		x := begin(t, method("GET"), path(events), saysOver(&over))
		x.Answer(200, sse, completed)
		x.Leave()
		x.Abort()
		equal(t, strings.Join(over, " "), "run_1", "the run that is over")
	})
}
