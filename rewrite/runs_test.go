package rewrite

import (
	"strings"
	"testing"
)

// TestRunsThatHaveBegun: what is no id of Hermes' is no part of a path.
func TestRunsThatHaveBegun(t *testing.T) {
	for body, want := range map[string]string{
		`{"run_id": "run_0a1b", "status": "started"}`:                    "run_0a1b",
		" \r\n" + `{"object":"hermes.run","run_id":"chatcmpl-1"}` + "\n": "chatcmpl-1",
		`{"run_id": "` + strings.Repeat("a", 128) + `"}`:                 strings.Repeat("a", 128),
		`{"run_id": "` + strings.Repeat("a", 129) + `"}`:                 "",
		`{"run_id": "a", "x": "` + strings.Repeat("x", 16<<10-24) + `"}`: "a",
		`{"run_id": "a", "x": "` + strings.Repeat("x", 16<<10-23) + `"}`: "",
		`{"run_id": "../run_1"}`:                                         "",
		`{"run_id": "run_1/events"}`:                                     "",
		`{"run_id": "run%201"}`:                                          "",
		`{"run_id": "run_1\n"}`:                                          "",
		`{"run_id": "é"}`:                                                "",
		`{"run_id": ""}`:                                                 "",
		`{"run_id": 1}`:                                                  "",
		`{"run_id": null}`:                                               "",
		`{"run": {"run_id": "run_1"}}`:                                   "",
		`{"id": "run_1"}`:                                                "",
		`["run_id", "run_1"]`:                                            "",
		`{"run_id": "run_1"`:                                             "",
		`{"run_id": "run_1"} and more`:                                   "",
		`run_1`:                                                          "",
		``:                                                               "",
	} {
		equal(t, BegunRun([]byte(body)), want, body)
	}
}

// TestStatesOfRuns: those that Hermes 0.13, 0.19, 0.21 and 0.22 name.
func TestStatesOfRuns(t *testing.T) {
	const of = `{"object": "hermes.run", "run_id": "run_1", "status": `
	for body, want := range map[string]RunState{
		of + `"queued", "updated_at": 1.5}`:                                 RunGoesOn,
		of + `"running", "last_event": "run.completed"}`:                    RunGoesOn,
		of + `"waiting_for_approval", "approval": {"status": "completed"}}`: RunGoesOn,
		of + `"stopping"}`:                       RunGoesOn,
		of + `"completed", "output": "running"}`: RunOver,
		of + `"failed", "error": "it broke"}`:    RunOver,
		of + `"cancelled"}`:                      RunOver,
		of + `"canceled"}`:                       RunOver,
		of + `"interrupted"}`:                    RunOver,
		of + `"completed", "output": "` + strings.Repeat("x", 16<<10): RunOver, // its beginning
		of + `"running", "approval": {"command": "rm`:                 RunGoesOn,
		of + `"completed`: RunUnknown,
		of + `"resting"}`: RunUnknown,
		of + `null}`:      RunUnknown,
		`{"error": {"message": "Run not found: run_1", "type": "invalid_request_error", "param": null, "code": "run_not_found"}}`: RunOver,
		`{"error": {"message": "Not found", "code": "not_found"}}`:                                                                RunUnknown,
		`{"error": "run_not_found"}`:       RunUnknown,
		`404: Not Found`:                   RunUnknown,
		`[{"status": "completed"}]`:        RunUnknown,
		`{"run": {"status": "completed"}}`: RunUnknown,
		``:                                 RunUnknown,
	} {
		equal(t, StateOfRun([]byte(body)), want, body)
	}
}

// TestPathsOfStatuses are those that a GET asks for a status with.
func TestPathsOfStatuses(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/runs/run_1": "run_1", "/p/work/v1/runs/run_1": "run_1", "/v1/runs/": "", "/v1/runs": "",
		"/v1/runs/run_1/events": "", "/v1/runs/run_1/stop": "", "/v1/responses/resp_1": "", "/runs/run_1": "",
	} {
		equal(t, RunStatusOfPath(path), want, path)
	}
}

// TestEndsOfRuns: only upstream's own last event says that the run is over.
func TestEndsOfRuns(t *testing.T) {
	event := func(name string) string { return `data: {"event": "` + name + `", "run_id": "run_1"}` + "\n\n" }
	for name, c := range map[string]struct {
		path, stream string
		want         bool
	}{
		"completed":      {"/v1/runs/run_1/events", event("message.delta") + event("run.completed") + ": stream closed\n\n", true},
		"failed":         {"/v1/runs/run_1/events", event("run.failed"), true},
		"cancelled":      {"/v1/runs/run_1/events", event("run.cancelled"), true},
		"interrupted":    {"/v1/runs/run_1/events", "id: 3\n" + event("run.interrupted"), true},
		"without a line": {"/v1/runs/run_1/events", strings.TrimSuffix(event("run.completed"), "\n"), true},
		"large":          {"/v1/runs/run_1/events", `data: {"event": "run.completed", "run_id": "run_1", "output": "` + strings.Repeat("x", 4096) + "\"}\n\n", true},
		"broken off":     {"/v1/runs/run_1/events", event("tool.started"), false},
		"cut":            {"/v1/runs/run_1/events", `data: {"event": "run.comple`, false},
		"done":           {"/v1/runs/run_1/events", event("message.delta") + "data: [DONE]\n\n", false},
		"nothing":        {"/v1/runs/run_1/events", "", false},
		"a session":      {"/api/sessions/s/chat/stream", "event: run.completed\ndata: {\"run_id\": \"run_1\"}\n\nevent: done\ndata: {}\n\n", false},
		"another stream": {"/v1/events", event("run.completed"), false},
	} {
		s := New(&Options{MaxFrame: 1024}, Params{RunID: RunOfPath(c.path), SessionID: SessionOfPath(c.path)})
		s.Finish(s.Feed(nil, []byte(c.stream), epoch), CauseEOF)
		equal(t, s.ShowedEndOfRun(), c.want, name)
	}
}
