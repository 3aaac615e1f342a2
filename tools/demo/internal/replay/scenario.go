package replay

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// recordings are streams of Hermes, byte for byte as they were recorded, in a directory
// for each release.
//
//go:embed recordings/*/*.sse
var recordings embed.FS

// The pace of a replay: recordings carry no times, so these are the times of
// an ordinary agent.
const (
	firstDelay = 300 * time.Millisecond // until the first frame
	tokenDelay = 40 * time.Millisecond  // between two deltas of text
	callDelay  = 150 * time.Millisecond // between the last text and a tool's start
	toolTime   = 800 * time.Millisecond // how long a tool runs
	killDelay  = 400 * time.Millisecond // between the last whole frame and a backend's death
)

// codeCrashed is the code of a stream whose agent has crashed.
const codeCrashed = "agent_crashed"

// A Step is a frame of a replay.
type Step struct {
	Delay   time.Duration // passes before the frame is sent
	Frame   []byte        // the bytes that are sent
	content string        // the text in the frame
	finish  string        // the finish reason in the frame, "" for none
}

// A Scenario is a recorded stream and what becomes of it. The page shows its members.
type Scenario struct {
	Name    string `json:"name"`    // chooses the scenario; it is the name of a model as well
	Short   string `json:"short"`   // names the choice on the page
	Title   string `json:"-"`       // says in a few words what happens
	About   string `json:"about"`   // says in a sentence what to look at
	Prompt  string `json:"prompt"`  // a question that the recording could be the answer to
	Release string `json:"release"` // the Hermes that was recorded
	Tools   int    `json:"tools"`   // how many really start, by a marker or by an event
	Code    string `json:"code"`    // the error code in which the repaired stream ends, "" if all goes well
	// OpenWebUI says that the client that shows it is Open WebUI, which knows cards
	// and status lines instead of Hermes' events.
	OpenWebUI bool `json:"openWebUI"`

	Shown  bool   `json:"-"` // when no scenario is chosen
	Steps  []Step `json:"-"` // the frames
	Aborts bool   `json:"-"` // the connection is cut after the last step

	recording string        // file name without .sse, "" for Name
	parallel  bool          // tools that start back to back
	toolTime  time.Duration // of each tool, 0 for the usual one
	frames    int           // whole ones before the backend is killed, 0 for all of them
}

// Scenarios returns the scenarios, in the order in which they are shown: streams of
// v0.22.2, of v0.8.0, and of v0.9.0, whose tools have events that start and never end.
var Scenarios = sync.OnceValue(func() []Scenario {
	return slices.Concat(load("v0.22.2", []Scenario{
		{Name: "cards", Title: "tools in Open WebUI", recording: "parallel", parallel: true, Shown: true, OpenWebUI: true,
			Short: "Tools in Open WebUI", Prompt: "Look at three things.",
			About: "Open WebUI does not know the tool events of Hermes. The sidecar makes cards of them."},
		{Name: "approval", Title: "a command that needs an approval", recording: "danger", Shown: true, OpenWebUI: true,
			Short: "An approval", Prompt: "Remove the victim.",
			About: "Hermes waits for an answer, and Open WebUI does not show the question. The sidecar makes a status of it."},
		{Name: "provider_error", Title: "the model's provider refuses", recording: "err401", Code: "agent_error", Shown: true, OpenWebUI: true,
			Short: "A provider's error", Prompt: "Are you there?",
			About: "The error is inside the finish chunk, and has the provider's key in it."},
		{Name: "kill_today", Title: "the backend killed inside two tools", Code: "upstream_aborted", recording: "parallel", parallel: true, frames: 6, Shown: true, OpenWebUI: true,
			Short: "Backend killed in tools", Prompt: "Look at three things.",
			About: "The connection breaks. The sidecar ends both cards and says why."},
	}), load("v0.8.0", []Scenario{
		{Name: "one_tool", Title: "text with one tool", Shown: true,
			Short: "One tool", Prompt: "How many files are there?",
			About: "Legacy Hermes announces a tool with a line in the answer, and never says that it has ended."},
		{Name: "parallel_tools", Title: "three tools in parallel", Shown: true, parallel: true,
			Short: "Three at once", Prompt: "What does main do, and what does it build on?",
			About: "Three announcements come back to back; the text after them proves that all three tools have ended."},
		{Name: "model_imitates", Title: "an imitated marker", Shown: true,
			Short: "Imitated marker", Prompt: "Run ls for me.",
			About: "The model has learned from its history to write such a line itself, token by token. No tool ran."},
		{Name: "think_tags", Title: "a model that thinks aloud", Shown: true,
			Short: "Thinking aloud", Prompt: "What is the answer?",
			About: "The model writes its thoughts between tags in its answer, and they are stored with it."},
		{Name: "crash_in_tool", Title: "a crash inside a tool", Shown: true, Code: codeCrashed,
			Short: "Crash in a tool", Prompt: "Does it build?",
			About: "The agent dies while a tool runs. Legacy Hermes ends the stream as if nothing had happened."},
		{Name: "kill", Title: "the backend killed mid-stream", Shown: true, Code: "upstream_aborted", recording: "one_tool", frames: 6,
			Short: "Backend killed", Prompt: "How many files are there?",
			About: "The process dies in the middle of a frame: no finish chunk, no [DONE], a torn body."},
		{Name: "plain", Title: "text alone",
			Short: "Nothing to repair", Prompt: "Say hello.",
			About: "There is nothing to repair: every byte passes unchanged."},
		{Name: "seq_tools", Title: "tools one after the other",
			Short: "Four tools", Prompt: "How does Caddy proxy SSE? Write it to out.txt.",
			About: "The start of the next tool proves that the one before it has ended."},
		{Name: "inline_code", Title: "code that is no marker",
			Short: "Inline code", Prompt: "How do I list files?",
			About: "Inline code and a single emoji in backticks stay."},
		{Name: "slow_tool", Title: "a tool that takes five seconds", toolTime: 5 * time.Second,
			Short: "Slow tool", Prompt: "Take your time.",
			About: "The card runs until the tool has ended."},
		{Name: "crash_immediate", Title: "a crash before the first word", Code: codeCrashed,
			Short: "Crash at once", Prompt: "Are you there?",
			About: "Legacy Hermes ends an empty answer with “stop”."},
	}), load("v0.9.0", []Scenario{
		{Name: "endless_cards", Title: "tool cards that never end", recording: "parallel_tools", parallel: true,
			Short: "Cards that never end", Prompt: "What does main do, and what does it build on?",
			About: "This Hermes sends tool events, but only for the start of a tool. So the client's cards spin forever."},
		{Name: "endless_slow", Title: "a slow tool whose card never ends", recording: "slow_tool", toolTime: time.Second,
			Short: "Slow, endless card", Prompt: "Take your time.",
			About: "The text continues after the tool, and the card still spins."},
		{Name: "endless_crash", Title: "a crash inside a tool whose card never ends", recording: "crash_in_tool", Code: codeCrashed,
			Short: "Crash, endless card", Prompt: "Does it build?",
			About: "The agent dies while a tool runs. Its card spins forever, and the stream ends as if nothing had happened."},
	}))
})

// Select returns the scenarios with these names in their order, or those that
// are shown by default for none. An unknown name is an error that lists the
// known ones.
func Select(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(s Scenario) bool { return !s.Shown }), nil
	}
	var chosen []Scenario
	for _, name := range names {
		s, ok := find(all, name)
		if !ok {
			return nil, fmt.Errorf("unknown scenario %q: choose one of %s", name, strings.Join(Names(all), ", "))
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

// find returns the scenario with the name.
func find(scenarios []Scenario, name string) (s Scenario, ok bool) {
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return scenarios[i], true
}

// Names returns the names of scenarios.
func Names(scenarios []Scenario) []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.Name
	}
	return names
}

// Duration is how long the scenario takes at speed 1.
func (s Scenario) Duration() time.Duration {
	var d time.Duration
	for _, step := range s.Steps {
		d += step.Delay
	}
	return d
}

// content is the text of the answer as the backend sends it.
func (s Scenario) content() string {
	var b strings.Builder
	for _, step := range s.Steps {
		b.WriteString(step.content)
	}
	return b.String()
}

// reasoning is what stands between tags at the beginning of the answer, and rest
// is text without it.
func (s Scenario) reasoning(text string) (reasoning, rest string) {
	inside, tagged := strings.CutPrefix(text, "<think>")
	reasoning, behind, closed := strings.Cut(inside, "</think>")
	if !tagged || !closed {
		return "", text
	}
	return reasoning, strings.TrimSpace(behind)
}

// tools are the tools that really start, and the text without their announcements.
func (s Scenario) tools() (tools []marker, rest string) {
	var b strings.Builder
	for _, step := range s.Steps {
		if m, ok := startsTool(step); ok {
			tools = append(tools, m)
			continue
		}
		b.WriteString(step.content)
	}
	return tools, b.String()
}

// finish is the finish reason that the backend sends, "" for none.
func (s Scenario) finish() string {
	for _, step := range s.Steps {
		if step.finish != "" {
			return step.finish
		}
	}
	return ""
}

// load fills in the release and the steps of scenarios. It panics when the program
// carries no such recording, which no input can bring about.
func load(release string, all []Scenario) []Scenario {
	for i := range all {
		s := &all[i]
		s.Release = release
		stream, err := recordings.ReadFile("recordings/" + release + "/" + cmp.Or(s.recording, s.Name) + ".sse")
		if err != nil {
			panic(fmt.Sprintf("demo: recording of scenario %s: %v", s.Name, err))
		}
		s.Steps = pace(stream, *s)
		if n := s.frames; n > 0 {
			torn := s.Steps[n].Frame
			s.Steps = append(s.Steps[:n:n], Step{Delay: killDelay, Frame: torn[:len(torn)/2]})
			s.Aborts = true
		}
		started, _ := s.tools()
		s.Tools = len(started)
	}
	return all
}

// pace cuts a recorded stream into its frames and gives each its delay.
func pace(stream []byte, s Scenario) []Step {
	var steps []Step
	inTool := false
	for _, frame := range bytes.SplitAfter(stream, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		step := Step{Delay: tokenDelay, Frame: frame}
		step.content, step.finish = inspect(frame)
		_, starts := startsTool(step)
		switch {
		case len(steps) == 0:
			step.Delay = firstDelay
		case bytes.Contains(frame, []byte("[DONE]")):
			step.Delay = 0 // written together with the finish
		case starts && inTool && s.parallel:
			step.Delay = 0
		case inTool:
			step.Delay = cmp.Or(s.toolTime, toolTime)
		case starts:
			step.Delay = callDelay
		}
		// A comment, or a question that the tool waits for.
		inTool = starts || inTool && (frame[0] == ':' || bytes.HasPrefix(frame, []byte("event: approval.request")))
		steps = append(steps, step)
	}
	return steps
}

// startsTool returns the tool that a frame announces, by a marker or by an event.
func startsTool(step Step) (marker, bool) {
	data, is := bytes.CutPrefix(step.Frame, []byte("event: "+toolEvent+"\ndata: "))
	var c chunk
	if !is || json.Unmarshal(data, &c) != nil || c.Status == "completed" {
		return parseMarker(step.content)
	}
	return marker{c.Emoji, c.Label}, true
}

// inspect returns the text and the finish reason of a recorded frame.
func inspect(frame []byte) (content, finish string) {
	data := bytes.TrimPrefix(bytes.TrimSpace(frame), []byte("data: "))
	var c chunk
	if json.Unmarshal(data, &c) != nil || len(c.Choices) == 0 {
		return "", ""
	}
	return c.Choices[0].Delta.Content, c.Choices[0].FinishReason
}

// scale divides a delay by the speed; a speed of 0 means no delay.
func scale(d time.Duration, speed float64) time.Duration {
	if speed <= 0 {
		return 0
	}
	return time.Duration(float64(d) / speed)
}
