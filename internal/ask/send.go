package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// runIDs matches the ids of runs that may be part of a path.
var runIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// approvalPath returns the path that takes answers for run, "" if there is none. path is the path
// of the request whose stream asks.
func approvalPath(path, run string) string {
	base, ok := strings.CutSuffix(path, "/chat/completions")
	if id := rewrite.RunOfPath(path); id != "" {
		base, ok = strings.CutSuffix(path, "/runs/"+id+"/events")
	}
	if id := rewrite.SessionOfPath(path); id != "" {
		base, ok = strings.CutSuffix(path, "/api/sessions/"+id+"/chat/stream")
		base += "/v1"
	}
	if !ok || !runIDs.MatchString(run) {
		return ""
	}
	return base + "/runs/" + run + "/approval"
}

// send answers q at the upstream of a stream, in the name s of the client that is asked.
func send(ctx context.Context, s *behalf.Sender, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
	path := approvalPath(s.Path(), q.RunID)
	if path == "" {
		return desk.Refused, fmt.Errorf("upstream has no path for answers to the run at %q", s.Path())
	}
	body, _ := json.Marshal(map[string]string{"choice": string(c), "request_id": q.RequestID}) // it never fails
	said, err := s.Send(ctx, http.MethodPost, path, body)
	if err != nil {
		return desk.Refused, err
	}
	return resultOf(said)
}

// resultOf returns the result of an answer from said, upstream's response to it.
func resultOf(said behalf.Response) (desk.Result, error) {
	var report struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal(said.Body, &report) // a body that is no JSON has no code
	switch code := report.Error.Code; {
	case said.Status == http.StatusOK:
		return desk.Accepted, nil
	case said.Status == http.StatusConflict && code == "approval_not_pending":
		return desk.AlreadyAnswered, nil
	case said.Status == http.StatusConflict, said.Status == http.StatusNotFound:
		return desk.TooLate, nil
	}
	return desk.Refused, fmt.Errorf("upstream rejected the answer with status %d", said.Status)
}
