package rewrite

import (
	"strings"
	"testing"
)

// runEvent is an event of a run as Hermes writes it, with more members.
func runEvent(name, more string) string {
	return `data: {"event": "` + name + `", "run_id": "run_1"` + more + "}\n\n"
}

func TestRunFailed(t *testing.T) {
	const message = `"the agent's answer ended before it was complete"`
	for name, c := range map[string]struct{ in, want string }{
		"the last timestamp": {
			runEvent("message.delta", `, "timestamp": 1.5, "delta": "a"`) + runEvent("message.delta", `, "timestamp": 1795165131.688888, "tool": "terminal"`),
			`data: {"event": "run.failed", "run_id": "run_1", "timestamp": 1795165131.688888, "error": ` + message + "}\n\n"},
		"no timestamp": {
			runEvent("message.delta", ``), `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"no timestamp in the last event": {
			runEvent("message.delta", `, "timestamp": 1.5`) + runEvent("approval.request", ``), `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"a timestamp that is no number": {
			runEvent("reasoning.available", `, "timestamp": "now"`), `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"a timestamp that is no JSON": {
			runEvent("reasoning.available", `, "timestamp": 1x`), `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"another event between": {
			runEvent("message.delta", `, "timestamp": 2`) + "data: {\"event\": \"ping\"}\n\n: x\n\n", `data: {"event": "run.failed", "run_id": "run_1", "timestamp": 2, "error": ` + message + "}\n\n"},
		"a new event": {
			runEvent("message.delta", `, "timestamp": 2`) + runEvent("subagent.start", `, "timestamp": 3, "goal": "x"`), `data: {"event": "run.failed", "run_id": "run_1", "timestamp": 3, "error": ` + message + "}\n\n"},
		"numbered, as newer ones are": {
			"id: 1\n" + runEvent("message.interim", `, "timestamp": 2, "text": "x"`) + "id: 2\n" + runEvent("run.steered", `, "timestamp": 4, "accepted": true`), "id: 3\n" + `data: {"event": "run.failed", "run_id": "run_1", "timestamp": 4, "error": ` + message + "}\n\n"},
		"numbered twice": {
			": open\n\nid: 0\n" + runEvent("message.delta", `, "timestamp": 2, "delta": "x", "seq": 0`) + "id: 1\n" + runEvent("message.delta", `, "timestamp": 2, "delta": "x", "seq": 1`),
			"id: 2\n" + `data: {"event": "run.failed", "run_id": "run_1", "timestamp": 2, "error": ` + message + ", \"seq\": 2}\n\n"},
		"numbered by a member alone": {
			runEvent("message.delta", `, "timestamp": 2, "seq": 41`), `data: {"event": "run.failed", "run_id": "run_1", "timestamp": 2, "error": ` + message + ", \"seq\": 42}\n\n"},
		"ids that are no numbers": {
			"id: a/1\n" + runEvent("message.delta", `, "seq": "1"`) + "id:\n" + runEvent("message.delta", `, "seq": 1.5`) + "id\n" + runEvent("message.delta", `, "seq": -1`),
			`data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"ids without a space": {
			"id:8\nid:9\n" + runEvent("message.delta", ""), "id: 10\n" + `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"open tools": {
			"id: 4\n" + runEvent("tool.started", `, "timestamp": 1, "tool": "a", "preview": "x", "seq": 4`) + "id: 5\n" + runEvent("tool.started", `, "timestamp": 2, "tool": "b\u0062", "preview": null, "seq": 5`) +
				"id: 6\n" + runEvent("tool.started", `, "timestamp": 3, "tool": "a", "seq": 6`) + "id: 7\n" + runEvent("tool.completed", `, "timestamp": 4, "tool": "a", "duration": 0.1, "error": false, "seq": 7`) +
				"id: 8\n" + runEvent("tool.completed", `, "timestamp": 5, "tool": "c", "duration": 0.1, "error": false, "seq": 8`),
			"id: 9\n" + runEvent("tool.completed", `, "timestamp": 5, "tool": "b\u0062", "duration": 0.0, "error": true, "seq": 9`) + "id: 10\n" + runEvent("tool.completed", `, "timestamp": 5, "tool": "a", "duration": 0.0, "error": true, "seq": 10`) +
				"id: 11\n" + runEvent("run.failed", `, "timestamp": 5, "error": `+message+`, "seq": 11`)},
		"a long id": {
			strings.ReplaceAll(runEvent("message.delta", ``), "run_1", strings.Repeat("r", maxEnvelope)), `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"an end without one": {
			runEvent("message.delta", ``) + ": stream closed\n\n", `data: {"event": "run.failed", "run_id": "run_1", "error": ` + message + "}\n\n"},
		"an error event": {
			runEvent("message.delta", ``) + named("error", `{"message": "overloaded"}`), `data: {"event": "run.failed", "run_id": "run_1", "error": "overloaded"}` + "\n\n"},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, sum := run(c.in, Options{}, Params{RunID: "run_1"}, cut, CauseEOF)
			same(t, out, c.in+c.want, name+": bytes")
			if sum.Code == "" || sum.ID != "run_1" {
				t.Errorf("%s: %+v", name, sum)
			}
			again, _ := run(out, Options{}, Params{RunID: "run_1"}, cut, CauseEOF)
			same(t, again, out, name+": outputs of a second sidecar")
		}
	}
}

func TestEventsThatEndARun(t *testing.T) {
	for name, code := range map[string]string{"run.completed": "", "run.cancelled": "", "run.canceled": "", "run.failed": CodeAgentError, "run.interrupted": CodeAgentError} {
		in := runEvent("message.delta", `, "delta": "a"`) + runEvent(name, ``)
		for _, tail := range []string{"", ": stream closed\n\n", ": stream cl", "data: {\"a"} {
			for _, cause := range causes {
				out, sum := run(in+tail, Options{}, Params{RunID: "run_1"}, oneByte, cause)
				same(t, out, in+tail, name+": bytes")
				if sum.Code != code {
					t.Errorf("%s: %+v", name, sum)
				}
			}
		}
	}
}

// TestRunThatHasShownNothing is known by its path, and has failed.
func TestRunThatHasShownNothing(t *testing.T) {
	for _, in := range []string{"", ": keepalive\n\n", "data: {\"event\": \"message.delta\", \"ru"} {
		out, sum := run(in, Options{}, Params{RunID: "run_\"1"}, oneByte, CauseAborted)
		if !strings.Contains(in, "data") {
			same(t, out, in+`data: {"event": "run.failed", "run_id": "run_\"1", "error": "the connection to the agent was lost before its answer was complete"}`+"\n\n", "bytes")
		}
		if sum.Code != CodeAborted || sum.ID != `run_"1` || strings.Count(out, "run.failed") != 1 {
			t.Errorf("%+v: %s", sum, out)
		}
	}
}

// TestRunsOnOtherPathsPass: events that look like a run's are common.
func TestRunsOnOtherPathsPass(t *testing.T) {
	in := runEvent("message.created", `, "text": "hi"`)
	for _, cause := range causes {
		out, sum := run(in, Options{}, Params{}, oneByte, cause)
		same(t, out, in, "bytes")
		if sum.Code != "" || sum.ID != "" {
			t.Errorf("%+v", sum)
		}
	}
}
