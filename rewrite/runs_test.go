package rewrite_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
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
		if got := rewrite.BegunRun([]byte(body)); got != want {
			t.Errorf("%.60q: %q, want %q", body, got, want)
		}
	}
}

// TestStatesOfRuns: those that Hermes 0.13, 0.19, 0.21 and 0.22 name.
func TestStatesOfRuns(t *testing.T) {
	const of = `{"object": "hermes.run", "run_id": "run_1", "status": `
	for body, want := range map[string]rewrite.RunState{
		of + `"queued", "updated_at": 1.5}`:                                 rewrite.RunGoesOn,
		of + `"running", "last_event": "run.completed"}`:                    rewrite.RunGoesOn,
		of + `"waiting_for_approval", "approval": {"status": "completed"}}`: rewrite.RunGoesOn,
		of + `"stopping"}`:                       rewrite.RunGoesOn,
		of + `"completed", "output": "running"}`: rewrite.RunOver,
		of + `"failed", "error": "it broke"}`:    rewrite.RunOver,
		of + `"cancelled"}`:                      rewrite.RunOver,
		of + `"canceled"}`:                       rewrite.RunOver,
		of + `"interrupted"}`:                    rewrite.RunOver,
		of + `"completed", "output": "` + strings.Repeat("x", 16<<10): rewrite.RunOver, // its beginning
		of + `"running", "approval": {"command": "rm`:                 rewrite.RunGoesOn,
		of + `"completed`: rewrite.RunUnknown,
		of + `"resting"}`: rewrite.RunUnknown,
		of + `null}`:      rewrite.RunUnknown,
		`{"error": {"message": "Run not found: run_1", "type": "invalid_request_error", "param": null, "code": "run_not_found"}}`: rewrite.RunOver,
		`{"error": {"message": "Not found", "code": "not_found"}}`:                                                                rewrite.RunUnknown,
		`{"error": "run_not_found"}`:       rewrite.RunUnknown,
		`404: Not Found`:                   rewrite.RunUnknown,
		`[{"status": "completed"}]`:        rewrite.RunUnknown,
		`{"run": {"status": "completed"}}`: rewrite.RunUnknown,
		``:                                 rewrite.RunUnknown,
	} {
		if got := rewrite.StateOfRun([]byte(body)); got != want {
			t.Errorf("%.80q: %v, want %v", body, got, want)
		}
	}
}

// TestPathsOfStatuses are those that a GET asks for a status with.
func TestPathsOfStatuses(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/runs/run_1": "run_1", "/p/work/v1/runs/run_1": "run_1", "/v1/runs/": "", "/v1/runs": "",
		"/v1/runs/run_1/events": "", "/v1/runs/run_1/stop": "", "/v1/responses/resp_1": "", "/runs/run_1": "",
	} {
		if got := rewrite.RunStatusOfPath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
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
		s := rewrite.New(&rewrite.Options{MaxFrame: 1024}, rewrite.Params{RunID: rewrite.RunOfPath(c.path), SessionID: rewrite.SessionOfPath(c.path)})
		out := s.Feed(nil, []byte(c.stream), time.Unix(0, 0))
		s.Finish(out, rewrite.CauseEOF)
		if got := s.ShowedEndOfRun(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
