package replay

import (
	"cmp"
	"time"
)

// An offer is a recording that the page offers.
type offer struct {
	Name    string `json:"name"`    // of the scenario, which is the model to ask for
	Short   string `json:"short"`   // what the choice says
	About   string `json:"about"`   // says in a sentence what to look at
	Prompt  string `json:"prompt"`  // a question that the recording could be the answer to
	Release string `json:"release"` // the Hermes that was recorded
	Tools   int    `json:"tools"`   // how many really started
	Code    string `json:"code"`    // of the error in which the repaired stream ends, "" if all goes well

	OpenWebUI bool `json:"openWebUI"` // the client knows cards and status lines instead of Hermes' events
}

// words are what the page says of a scenario, in the order of the page; the
// first is played when the page opens. An about of "" is the scenario's own.
var words = []struct{ name, short, prompt, about string }{
	{"cards", "Tools in Open WebUI", "Look at three things.", ""},
	{"approval", "An approval", "Remove the victim.", ""},
	{"provider_error", "A provider's error", "Are you there?", ""},
	{"kill_today", "Backend killed in tools", "Look at three things.", ""},
	{"seq_tools", "Four tools", "How does Caddy proxy SSE? Write it to out.txt.",
		"An old Hermes writes its tools into the text. The sidecar takes them out, and makes cards of them that start and end."},
	{"parallel_tools", "Three at once", "What does main do, and what does it build on?", ""},
	{"endless_cards", "Cards that never end", "What does main do, and what does it build on?", ""},
	{"think_tags", "Thinking aloud", "What is the answer?", ""},
	{"model_imitates", "Imitated marker", "Run ls for me.", ""},
	{"crash_in_tool", "Crash in a tool", "Does it build?", ""},
	{"endless_crash", "Crash, endless card", "Does it build?", ""},
	{"crash_immediate", "Crash at once", "Are you there?", ""},
	{"kill", "Backend killed", "How many files are there?", ""},
	{"slow_tool", "Slow tool", "Take your time.", ""},
	{"endless_slow", "Slow, endless card", "Take your time.", ""},
	{"one_tool", "One tool", "How many files are there?", ""},
	{"inline_code", "Inline code", "How do I list files?", ""},
	{"plain", "Nothing to repair", "Say hello.", ""},
}

// PageScenarios returns Scenarios and those that only the page shows: streams
// of Hermes v0.9.0, whose tools have events that start and never end.
func PageScenarios() []Scenario {
	return append(Scenarios(), load("v0.9.0", "recordings-v0.9.0", []Scenario{
		{Name: "endless_cards", Title: "tool cards that never end", recording: "parallel_tools", parallel: true,
			About: "This Hermes sends tool events, but only for the start of a tool. So the client's cards spin forever."},
		{Name: "endless_slow", Title: "a slow tool whose card never ends", recording: "slow_tool", toolTime: time.Second,
			About: "The text continues after the tool, and the card still spins."},
		{Name: "endless_crash", Title: "a crash inside a tool whose card never ends", recording: "crash_in_tool", Code: codeCrashed,
			About: "The agent dies while a tool runs. Its card spins forever, and the stream ends as if nothing had happened."},
	})...)
}

// offers are the scenarios that words has something to say of, in its order.
func offers(scenarios []Scenario) []offer {
	list := []offer{}
	for _, w := range words {
		for _, s := range scenarios {
			if s.Name == w.name {
				list = append(list, offer{
					Name: s.Name, Short: w.short, About: cmp.Or(w.about, s.About), Prompt: w.prompt,
					Release: s.Release, Tools: s.starts(), Code: s.Code, OpenWebUI: s.OpenWebUI,
				})
			}
		}
	}
	return list
}

// starts counts the tools that start, by a marker or by an event.
func (s Scenario) starts() int {
	tools, _ := s.tools()
	return len(tools)
}
