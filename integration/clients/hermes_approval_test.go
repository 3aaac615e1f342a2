package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const approvalRequest = "approval.request"

// victim makes what the dangerous command removes.
func (h *hermesLab) victim(t *testing.T) (gone func() bool) {
	t.Helper()
	dir := filepath.Join(h.work, "victim")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) }
}

// approveInChat asks for a dangerous command in a chat. Hermes waits for a person there, or
// tells the model at once that it may not.
func (h *hermesLab) approveInChat(t *testing.T) {
	h.victim(t)
	bare, _ := h.ask(t, dangerous).judge(t)
	if !strings.Contains(bare.raw, "event: "+approvalRequest) {
		h.cannot(t, "`"+approvalRequest+"` in a chat: the model is told that the command may not run")
		return
	}
	gone := h.victim(t)
	w := h.post(t, h.mended+"/v1/chat/completions", chatOf(h.question(dangerous)))
	asked := w.frame(approvalRequest)
	var q struct {
		RunID   string            `json:"run_id"`
		Choices []json.RawMessage `json:"choices"`
		Asked   []string          `json:"hermes_choices"`
	}
	if err := json.Unmarshal([]byte(asked), &q); err != nil || len(q.Choices) != 1 || len(q.Asked) == 0 {
		t.Errorf("not as contract section 2 says: %s", asked)
	}
	h.approve(t, q.RunID)
	if w.rest(); !gone() {
		t.Error("the command has not run")
	}
	h.line("an approval in a chat", "not tried", "ok")
}

// approveInRun does the same in a run, whose events ask a person.
func (h *hermesLab) approveInRun(t *testing.T) {
	for _, base := range []string{h.bare, h.mended} {
		gone := h.victim(t)
		id, ok := h.run(t, base, h.question(dangerous))
		if !ok {
			h.cannot(t, "`/v1/runs`")
			return
		}
		w := h.get(t, base+"/v1/runs/"+id+"/events")
		w.until(approvalRequest)
		h.approve(t, id)
		all := w.rest()
		record(t, "runs approval", all)
		if !gone() || !strings.Contains(all, "approval.responded") || !strings.Contains(all, "run.completed") {
			t.Errorf("the command has run: %v; %s", gone(), all)
		}
	}
	h.line("an approval in `/v1/runs/{id}/events`", "ok", "ok")
}

// approve says through the sidecar that a command may run.
func (h *hermesLab) approve(t *testing.T, run string) {
	t.Helper()
	w := h.post(t, h.mended+"/v1/runs/"+run+"/approval", `{"choice": "once"}`)
	if said := w.rest(); w.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", w.Status, said)
	}
}

// run starts a run and returns its id.
func (h *hermesLab) run(t *testing.T, base, prompt string) (id string, ok bool) {
	t.Helper()
	w := h.post(t, base+"/v1/runs", `{"input": "`+prompt+`"}`)
	var run struct {
		ID string `json:"run_id"`
	}
	ok = w.json(&run)
	return run.ID, ok && run.ID != ""
}
