package replay

import "time"

// An offer is a recording that the page offers.
type offer struct {
	// Name is that of the scenario, which is the model to ask for.
	Name string `json:"name"`
	// Short is what the choice says.
	Short string `json:"short"`
	// About says in a sentence what to look at.
	About string `json:"about"`
	// Prompt is a question that the recording could be the answer to.
	Prompt string `json:"prompt"`
	// Release is the Hermes that was recorded.
	Release string `json:"release"`
	// Tools is how many tools really started.
	Tools int `json:"tools"`
	// Code is the error code in which the repaired stream ends, "" for a
	// scenario in which all goes well.
	Code string `json:"code"`
}

// words are what the page says of a scenario, in the order of the page; the
// first is played when the page opens. An about of "" is the scenario's own.
var words = []struct{ name, short, prompt, about string }{
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
	const release, directory = "v0.9.0", "recordings-v0.9.0"
	return append(Scenarios(),
		load(Scenario{
			Name: "endless_cards", Title: "tool cards that never end", Release: release,
			About: "This Hermes has tool events, but only for the start: a client's cards spin for ever.",
		}, source{recording: "parallel_tools", directory: directory, parallel: true}),
		load(Scenario{
			Name: "endless_slow", Title: "a slow tool whose card never ends", Release: release,
			About: "The text goes on behind the tool, and the card still spins.",
		}, source{recording: "slow_tool", directory: directory, toolTime: time.Second}),
		load(Scenario{
			Name: "endless_crash", Title: "a crash inside a tool whose card never ends", Release: release, Code: codeCrashed,
			About: "The agent dies while a tool runs. Its card spins for ever, and the stream ends as if all were well.",
		}, source{recording: "crash_in_tool", directory: directory}),
	)
}

// offers are the scenarios that words has something to say of, in its order.
func offers(scenarios []Scenario) []offer {
	list := []offer{}
	for _, w := range words {
		for _, s := range scenarios {
			if s.Name != w.name {
				continue
			}
			o := offer{
				Name: s.Name, Short: w.short, About: s.About, Prompt: w.prompt,
				Release: s.Release, Tools: s.starts(), Code: s.Code,
			}
			if w.about != "" {
				o.About = w.about
			}
			if o.Release == "" {
				o.Release = "v0.8.0"
			}
			list = append(list, o)
		}
	}
	return list
}

// starts counts the tools that start, by a marker or by an event.
func (s Scenario) starts() int {
	n := 0
	for _, step := range s.Steps {
		if startsTool(step) {
			n++
		}
	}
	return n
}
