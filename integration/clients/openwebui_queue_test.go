package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestOpenWebUIQueue has a user of a real Open WebUI wait in line, while another chat has the only
// place.
func TestOpenWebUIQueue(t *testing.T) {
	h := newHouse(t,
		connection{model: "queued", options: sidecar.Options{}, queue: sidecar.Options{"runs": 1, "wait": "10m"}},
		connection{model: "hasty", options: sidecar.Options{}, queue: sidecar.Options{"runs": 1, "wait": "3s"}},
	)
	h.scene(t, "waits", h.waitsInLine)
	h.scene(t, "stops", h.stopsInLine)
	h.scene(t, "waits in vain", h.waitsInVain)
}

// told is a condition: the line above the last answer says that it waits.
const told = lastAnswer + `?.querySelector(".status-description")?.innerText.trim().startsWith("Waiting in line: ")`

// occupy has another chat take the place of a model, until proceed is called.
func (h *house) occupy(model string) {
	h.T.Helper()
	n := h.agents[model].count()
	go asks(&harness.Attempt{TB: h.T}, h.sites[model], "hold g3-v0.20.3/one_tool").All()
	h.agents[model].awaitCount(n + 1)
}

// waitsInLine has the user see that the chat waits, and then its answer. Open WebUI asks for a chat's title
// when it asks for the answer, mostly first: then that is the one before it, and no other is.
func (h *house) waitsInLine(t *testing.T) {
	a := h.agents["queued"]
	h.occupy("queued")
	n, asides := a.count(), a.askedAside()
	h.open("queued")
	h.ask("play g3-v0.20.3/plain")
	h.Wait(told)
	place := h.Text(".status-description")
	h.Picture("open webui queue")
	if a.count() != n {
		t.Error("the chat has come to the agent")
	}
	a.proceed()
	m, _ := h.ended()
	h.checkGood(t, m, "plain")
	want := "you are next"
	if n := a.last().asides - asides; n > 0 {
		want = fmt.Sprintf("%d before you", n)
	}
	if strings.TrimSpace(place) != "Waiting in line: "+want {
		t.Errorf("it is told %q, want %q", place, want)
	}
	h.Picture("open webui queue answered")
	if s := m.StatusHistory; len(s) < 2 || !s[len(s)-1].Hidden || h.hasStatusLine() {
		t.Errorf("the answer is there, and the user still sees that it waits: %+v", s)
	}
}

// stopsInLine has the user stop the answer while it waits: the agent never hears of it.
func (h *house) stopsInLine(t *testing.T) {
	a := h.agents["queued"]
	h.occupy("queued")
	h.open("queued")
	h.ask("play g3-v0.20.3/seq_tools")
	h.Wait(told)
	h.Click(`[aria-label="Stop"]`)
	h.ended()
	a.proceed()
	m, _ := h.answer("queued", "play g3-v0.20.3/plain")
	h.checkGood(t, m, "plain")
	if n := a.asked("play g3-v0.20.3/seq_tools"); n != 0 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// waitsInVain has the user wait too long: the message has an error.
func (h *house) waitsInVain(t *testing.T) {
	h.occupy("hasty")
	h.open("hasty")
	h.ask("play g3-v0.20.3/plain")
	h.Wait(saysBeside("the agent was busy for as long as the request could wait"))
	if m, raw := h.ended(); m.Error == nil || m.Content != "" || h.hasStatusLine() {
		t.Errorf("stored is %s", raw)
	}
	h.Picture("open webui queue timeout")
	h.agents["hasty"].proceed()
}
