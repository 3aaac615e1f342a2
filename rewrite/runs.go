package rewrite

import (
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxRunAnswer is the number of bytes of an answer to POST /v1/runs or to GET /v1/runs/{id} that
// are looked at. Hermes' answer to the POST has 83, and its status begins with what the run does,
// before the output and what waits for approval.
const MaxRunAnswer = 16 << 10

// RunStatusOfPath returns the id in a path that ends in /v1/runs/{id}, a GET of which asks for the
// status of a run, or "" for any other path.
func RunStatusOfPath(path string) string { return idIn(path, "/v1/runs", "") }

// runID matches ids of runs that can be part of a path.
var runID = regexp.MustCompile(`^[\w-]{1,128}$`)

// BegunRun returns the id of the run that has begun according to body, the whole answer to POST
// /v1/runs, or "" if body names none or is larger than MaxRunAnswer.
func BegunRun(body []byte) string {
	if len(body) > MaxRunAnswer || !jsonspan.Valid(body) {
		return ""
	}
	id := jsonspan.Unquote(jsonspan.StringAt(body, jsonspan.MemberIn(body, "run_id")))
	if !runID.MatchString(id) {
		return ""
	}
	return id
}

// RunState is the state of a run, as upstream reports it.
type RunState uint8

// The values of RunState.
const (
	RunUnknown RunState = iota // nothing
	RunGoesOn
	RunOver
)

// runStates has the statuses of runs: those of Hermes 0.13 to 0.22, with interrupted, which 0.21
// added, and canceled, another spelling. A run that is stopping still has its thread.
var runStates = map[string]RunState{
	"queued": RunGoesOn, "running": RunGoesOn, "waiting_for_approval": RunGoesOn, "stopping": RunGoesOn,
	"completed": RunOver, "failed": RunOver, "cancelled": RunOver, "canceled": RunOver, "interrupted": RunOver,
}

// StateOfRun returns the state of the run according to body, the first MaxRunAnswer bytes of the
// answer to GET /v1/runs/{id}. A run that upstream does not know any more is over.
func StateOfRun(body []byte) RunState {
	if code := stringAt(body, jsonspan.MemberOf(body, jsonspan.MemberIn(body, "error"), "code")); code == "run_not_found" {
		return RunOver
	}
	return runStates[stringAt(body, jsonspan.MemberIn(body, "status"))]
}

// RefusesRun reports whether body, the whole answer to a request with the status 429, says that
// Hermes runs as many agents as it may, so that it has begun none. Another 429, such as that of a
// model's provider, which has the same code, may be sent after the agent has begun.
func RefusesRun(body []byte) bool {
	if !jsonspan.Valid(body) {
		return false
	}
	of := jsonspan.MemberIn(body, "error")
	return stringAt(body, jsonspan.MemberOf(body, of, "code")) == "rate_limit_exceeded" &&
		strings.HasPrefix(stringAt(body, jsonspan.MemberOf(body, of, "message")), "Too many concurrent runs")
}

// stringAt returns the text of the string at v, "" if there is none or it may go on after body.
func stringAt(body []byte, v jsonspan.Span) string {
	if v.IsCut(body) {
		return ""
	}
	return jsonspan.Unquote(jsonspan.StringAt(body, v))
}

// ShowedEndOfRun reports whether the stream is that of the events of a run and upstream has sent the
// last one: the run is over, whatever else ends the stream.
func (s *Stream) ShowedEndOfRun() bool { return s.other != nil && s.other.ShowedEndOfRun() }
