package hermes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A question is about one command.
type question struct {
	Question
	id       string
	waits    bool
	answered chan string
}

// A Question is what became of one that the agent has asked.
type Question struct {
	Prompt, Command string
	Choices         []string // that were accepted: one at most
	Ran             int
	Died            bool // the agent has, before it ran or did not
}

// Questions returns all that was asked so far, in order of the requests.
func (a *Agent) Questions() (all []Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		for _, q := range r.asked {
			one := q.Question
			one.Choices = slices.Clone(one.Choices)
			all = append(all, one)
		}
	}
	return all
}

// WantRan wants a command to have run so many times, in all runs. The agent runs it some time after the answer has
// reached it, for which WantRan waits.
func (a *Agent) WantRan(t testing.TB, command string, n int) {
	t.Helper()
	ran := func() (times int) {
		for _, q := range a.Questions() {
			if q.Command == command {
				times += q.Ran
			}
		}
		return times
	}
	harness.Until(t, fmt.Sprintf("%q has run %d times", command, n), func() bool { return ran() >= n })
	if got := ran(); got != n {
		t.Errorf("%q has run %d times, want %d: %+v", command, got, n, a.Questions())
	}
}

// WantUnanswered wants that no answer has reached the agent.
func (a *Agent) WantUnanswered(t testing.TB, after string) {
	t.Helper()
	for _, q := range a.Questions() {
		if q.Ran > 0 || len(q.Choices) > 0 {
			t.Fatalf("%s: %+v", after, q)
		}
	}
}

// approve answers POST /v1/runs/{run_id}/approval.
func (a *Agent) approve(w http.ResponseWriter, key, id string, body []byte) {
	var answer struct {
		Choice    string
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &answer) != nil || !slices.Contains([]string{"once", "session", "always", "deny"}, answer.Choice) {
		problem(w, http.StatusBadRequest, "invalid_approval_choice")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.requests, func(r *Request) bool { return r.ID == id && r.Key == key })
	if i < 0 {
		problem(w, http.StatusNotFound, "run_not_found")
		return
	}
	if a.requests[i].over {
		problem(w, http.StatusConflict, "approval_not_active")
		return
	}
	for _, q := range a.requests[i].asked {
		if q.waits && (answer.RequestID == "" || q.id == answer.RequestID) {
			q.waits = false
			q.Choices = append(q.Choices, answer.Choice)
			q.answered <- answer.Choice
			Replies(http.StatusOK, "application/json", fmt.Sprintf(`{"object": "hermes.run.approval_response", "run_id": "%s", "choice": "%s", "request_id": "%s", "resolved": 1}`, id, answer.Choice, q.id))(w, nil)
			return
		}
	}
	problem(w, http.StatusConflict, "approval_not_pending")
}

// answered implements asker.
func (a *answer) answered() []string { return a.chose }

// ask implements asker.
func (a *answer) ask(c Command) bool {
	if a.begin == nil && !a.req.run {
		return true
	}
	q := &question{Question: Question{Prompt: a.req.Prompt, Command: c.Text}, id: hexOf(32), waits: true, answered: make(chan string, 1)}
	call := fmt.Sprintf("call_%s_%d", a.req.ID[len(a.req.ID)-8:], len(a.chose))
	a.Frame(running("terminal", firstOf(c.Text), call)...)
	a.agent.mu.Lock()
	a.req.asked = append(a.req.asked, q)
	a.agent.mu.Unlock()
	a.Frame("event: approval.request", fmt.Sprintf(`data: {"command": %s, "pattern_key": "recursive delete", "pattern_keys": ["recursive delete"], "description": "recursive delete", `+
		`"allow_permanent": true, "allow_session": true, "request_id": "%s", "event": "approval.request", "run_id": "%s", "timestamp": 1795385820.82, "session_id": "api-b1f7fa361c19eefe", `+
		`"choices": ["once", "session", "always", "deny"]}`, ASCII(c.Text), q.id, a.req.ID))
	choice := a.await(q, c)
	if choice == "" {
		return false
	}
	a.chose = append(a.chose, choice)
	if choice != "deny" && choice != expired {
		a.agent.mu.Lock()
		q.Ran++
		a.agent.mu.Unlock()
	}
	a.Frame(Completed("terminal", call)...)
	return true
}

// expired stands for an answer that has not come in time.
const expired = "expired"

// await returns the answer to a question, "" if its client leaves.
func (a *answer) await(q *question, c Command) string {
	keepalive := time.NewTicker(100 * time.Millisecond)
	defer keepalive.Stop()
	for {
		select {
		case choice := <-q.answered:
			return choice
		case <-c.Expires:
			return a.agent.drops(q, false)
		case <-keepalive.C:
			a.Frame(": keepalive")
		case <-c.Dies:
			a.agent.drops(q, true)
			a.Die()
		case <-a.over.Done():
			a.agent.drops(q, true)
			return ""
		}
	}
}

// drops ends the time for an answer. It returns one that has come before, unless the agent dies.
func (a *Agent) drops(q *question, dies bool) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	q.Died = dies
	if !q.waits && !dies {
		return <-q.answered
	}
	q.waits = false
	return expired
}

// firstOf is a command as the label of a tool shows it.
func firstOf(command string) string {
	r := []rune(strings.Join(strings.Fields(command), " "))
	if len(r) > 40 {
		return string(r[:37]) + "..."
	}
	return string(r)
}
