package hermes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What Hermes stores of its turns. Since 0.16, GET /api/sessions/{id}/messages tells all rows of a session,
// and since 0.22 at most 500 of them.

// A Call is a call of a tool that the model makes.
type Call struct {
	ID, Name     string
	Label        string // what the event shows; the name if it is empty
	Args, Result string
	Until        <-chan struct{} // what the call waits for, nil for nothing
}

// Uses runs tools in parallel: their starts, and then their ends in order. What is stored is there before the
// event that tells of it.
func Uses(calls ...Call) Step {
	return func(s Stream) bool {
		a, _ := s.(*answer)
		var made []string
		for _, c := range calls {
			made = append(made, fmt.Sprintf(`{"id": %s, "type": "function", "function": {"name": %s, "arguments": %s}}`, ASCII(c.ID), ASCII(c.Name), ASCII(c.Args)))
		}
		if a != nil {
			a.stores("assistant", ASCII(a.unstored()), `"tool_calls": [`+strings.Join(made, ", ")+`], "finish_reason": "tool_calls"`)
		}
		for _, c := range calls {
			label := c.Label
			if label == "" {
				label = c.Name
			}
			s.Frame(running(c.Name, label, c.ID)...)
		}
		for _, c := range calls {
			if c.Until != nil && !s.Wait(c.Until) {
				return false
			}
			if a != nil {
				a.stores("tool", ASCII(c.Result), fmt.Sprintf(`"tool_call_id": %s, "tool_name": %s`, ASCII(c.ID), ASCII(c.Name)))
			}
			s.Frame(Completed(c.Name, c.ID)...)
		}
		return true
	}
}

// sessionOf returns the id of the session that a request for a chat belongs to: the client's own, or a sum
// of how the conversation begins.
func sessionOf(r *http.Request, body []byte) string {
	if id := r.Header.Get("X-Hermes-Session-Id"); id != "" {
		return id
	}
	var q struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &q)
	var system, first string
	for _, m := range q.Messages {
		var text string
		_ = json.Unmarshal(m.Content, &text)
		switch {
		case m.Role == "system":
			system = text
		case m.Role == "user" && first == "":
			first = text
		}
	}
	sum := sha256.Sum256([]byte(system + "\n" + first))
	return "api-" + hex.EncodeToString(sum[:])[:16]
}

// unstored returns what the answer has said since a row was stored of it.
func (a *answer) unstored() string {
	said := a.said.String()[a.stored:]
	a.stored += len(said)
	return said
}

// stores adds a row to the session of the answer. content is JSON, and more are members.
func (a *answer) stores(role, content, more string) {
	if a.req.Session == "" {
		return
	}
	if more != "" {
		more = ", " + more
	}
	a.agent.Store(a.req.Session, fmt.Sprintf(`"role": "%s", "content": %s%s`, role, content, more))
}

// Store adds a row with the members to a session.
func (a *Agent) Store(session, members string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rows == nil {
		a.rows = map[string][]string{}
	}
	a.rowID++
	a.rows[session] = append(a.rows[session], fmt.Sprintf(`{"id": %d, "session_id": %s, %s, "timestamp": %.6f}`, a.rowID, ASCII(session), members, float64(time.Now().UnixMicro())/1e6))
}

// A SessionQuestion is a request for what a session has stored.
type SessionQuestion struct{ Path, Query, Key string }

// SessionQuestions returns those that have come so far.
func (a *Agent) SessionQuestions() []SessionQuestion {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sessionQuestions)
}

// AnswerSessions has requests for what sessions have stored answered by h, by the agent itself again if
// that is nil.
func (a *Agent) AnswerSessions(h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessionHandler = h
}

// tellSession answers GET /api/sessions/{id}/messages as the agent itself does.
func (a *Agent) tellSession(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSuffix(r.URL.Path[strings.Index(r.URL.Path, sessionsPath)+len(sessionsPath):], "/messages")
	a.mu.Lock()
	rows := slices.Clone(a.rows[id])
	a.mu.Unlock()
	switch {
	case a.Version == "0.13":
		Replies(http.StatusNotFound, "text/plain; charset=utf-8", "404: Not Found")(w, r)
		return
	case rows == nil:
		problem(w, http.StatusNotFound, "session_not_found")
		return
	}
	more := ""
	if a.Version != "0.19" {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		latest := r.URL.Query().Get("order") == "latest" || err != nil
		if limit = min(limit, 500); err != nil {
			limit = 500
		}
		if n := len(rows) - limit; n > 0 && latest {
			rows = rows[n:]
		} else if n > 0 {
			rows = rows[:limit]
		}
		more = fmt.Sprintf(`, "pagination": {"limit": %d, "offset": 0, "order": "latest", "returned": %d}`, limit, len(rows))
	}
	Replies(http.StatusOK, "application/json; charset=utf-8", `{"object": "list", "session_id": `+ASCII(id)+`, "data": [`+strings.Join(rows, ", ")+`]`+more+`}`)(w, r)
}

const sessionsPath = "/api/sessions/"

// sessions answers a request for what a session has stored.
func (a *Agent) sessions(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.sessionQuestions = append(a.sessionQuestions, SessionQuestion{r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization")})
	h := a.sessionHandler
	a.mu.Unlock()
	if h == nil {
		h = a.tellSession
	}
	h(w, r)
}
