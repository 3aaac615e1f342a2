package demo

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"regexp"
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

// A step is a frame of a replay.
type step struct {
	delay time.Duration // passes before the frame is sent
	frame []byte
}

// A scenario is a recorded stream and what becomes of it. The page gets the members that have
// names in JSON.
type scenario struct {
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

	shown     bool          // when no scenario is chosen
	recording string        // file name without .sse, "" for Name
	parallel  bool          // tools that start back to back
	toolTime  time.Duration // of each tool, 0 for the usual one
	frames    int           // whole ones before the backend is killed, 0 for all of them

	steps   []step
	aborts  bool     // the connection is cut after the last step
	content string   // the text of the answer as the backend sends it
	clean   string   // content without the announcements of tools
	finish  string   // the finish reason that the backend sends, "" for none
	started []marker // the tools
}

// scenarios returns the scenarios, in the order in which they are shown: streams of
// v0.22.2, of v0.8.0, and of v0.9.0, whose tools have events that start and never end.
var scenarios = sync.OnceValue(func() []scenario {
	return slices.Concat(load("v0.22.2", []scenario{
		{Name: "cards", Title: "tools in Open WebUI", recording: "parallel", parallel: true, shown: true, OpenWebUI: true,
			Short: "Tools in Open WebUI", Prompt: "Look at three things.",
			About: "Open WebUI does not know the tool events of Hermes. The sidecar makes cards of them."},
		{Name: "approval", Title: "a command that needs an approval", recording: "danger", shown: true, OpenWebUI: true,
			Short: "An approval", Prompt: "Remove the victim.",
			About: "Hermes waits for an answer, and Open WebUI does not show the question. The sidecar makes a status of it."},
		{Name: "provider_error", Title: "the model's provider refuses", recording: "err401", Code: "agent_error", shown: true, OpenWebUI: true,
			Short: "A provider's error", Prompt: "Are you there?",
			About: "The error is inside the finish chunk, and has the provider's key in it."},
		{Name: "kill_today", Title: "the backend killed inside two tools", Code: "upstream_aborted", recording: "parallel", parallel: true, frames: 6, shown: true, OpenWebUI: true,
			Short: "Backend killed in tools", Prompt: "Look at three things.",
			About: "The connection breaks. The sidecar ends both cards and says why."},
	}), load("v0.8.0", []scenario{
		{Name: "one_tool", Title: "text with one tool", shown: true,
			Short: "One tool", Prompt: "How many files are there?",
			About: "Legacy Hermes announces a tool with a line in the answer, and never says that it has ended."},
		{Name: "parallel_tools", Title: "three tools in parallel", shown: true, parallel: true,
			Short: "Three at once", Prompt: "What does main do, and what does it build on?",
			About: "Three announcements come back to back; the text after them proves that all three tools have ended."},
		{Name: "model_imitates", Title: "an imitated marker", shown: true,
			Short: "Imitated marker", Prompt: "Run ls for me.",
			About: "The model has learned from its history to write such a line itself, token by token. No tool ran."},
		{Name: "think_tags", Title: "a model that thinks aloud", shown: true,
			Short: "Thinking aloud", Prompt: "What is the answer?",
			About: "The model writes its thoughts between tags in its answer, and they are stored with it."},
		{Name: "crash_in_tool", Title: "a crash inside a tool", shown: true, Code: codeCrashed,
			Short: "Crash in a tool", Prompt: "Does it build?",
			About: "The agent dies while a tool runs. Legacy Hermes ends the stream as if nothing had happened."},
		{Name: "kill", Title: "the backend killed mid-stream", shown: true, Code: "upstream_aborted", recording: "one_tool", frames: 6,
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
	}), load("v0.9.0", []scenario{
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

// choose returns the scenarios with these names in their order, or those that
// are shown by default for none. An unknown name is an error that lists the
// known ones.
func choose(names []string) (chosen []scenario, err error) {
	for _, s := range scenarios() {
		if s.shown && len(names) == 0 {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown scenario %q: choose one of %s", name, allNames())
		}
		chosen = append(chosen, scenarios()[i])
	}
	return chosen, nil
}

// allNames returns the names of all scenarios.
func allNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// duration is how long the scenario takes at speed 1.
func (s scenario) duration() (d time.Duration) {
	for _, step := range s.steps {
		d += step.delay
	}
	return d
}

// load reads the recordings of scenarios. It panics when the program carries no such recording,
// which no input can bring about.
func load(release string, all []scenario) []scenario {
	for i := range all {
		s := &all[i]
		s.Release = release
		stream, err := recordings.ReadFile("recordings/" + release + "/" + cmp.Or(s.recording, s.Name) + ".sse")
		if err != nil {
			panic(fmt.Sprintf("demo: recording of scenario %s: %v", s.Name, err))
		}
		s.pace(stream)
		s.Tools = len(s.started)
	}
	return all
}

// pace cuts a recorded stream into its frames, gives each its delay, and notes what it says.
func (s *scenario) pace(stream []byte) {
	inTool := false
	for frame := range bytes.SplitAfterSeq(stream, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		if s.frames > 0 && len(s.steps) == s.frames {
			s.steps = append(s.steps, step{killDelay, frame[:len(frame)/2]})
			s.aborts = true
			return
		}
		c, _ := parseFrame(frame) // some have no JSON
		tool, starts := c.startsTool()
		delay := tokenDelay
		switch {
		case len(s.steps) == 0:
			delay = firstDelay
		case bytes.Contains(frame, []byte("[DONE]")):
			delay = 0 // written together with the finish
		case starts && inTool && s.parallel:
			delay = 0
		case inTool:
			delay = cmp.Or(s.toolTime, toolTime)
		case starts:
			delay = callDelay
		}
		// A comment, or a question that the tool waits for.
		inTool = starts || inTool && (frame[0] == ':' || bytes.HasPrefix(frame, []byte("event: approval.request")))
		s.steps = append(s.steps, step{delay, frame})
		s.content += c.content()
		if starts {
			s.started = append(s.started, tool)
		} else {
			s.clean += c.content()
		}
		if c != nil && len(c.Choices) > 0 {
			s.finish = cmp.Or(s.finish, c.Choices[0].FinishReason)
		}
	}
}

// scale divides a delay by the speed; a speed of 0 means no delay.
func scale(d time.Duration, speed float64) time.Duration {
	if speed <= 0 {
		return 0
	}
	return time.Duration(float64(d) / speed)
}

// marker is a tool as Hermes announces it in the text of its answer.
type marker struct {
	emoji, label string
}

// markerLine matches a line that a reader would take for a marker, real or
// imitated: what stands before the label has a character beyond ASCII.
var markerLine = regexp.MustCompile("(?s)\\A`([^\\s`]*[^\\x00-\\x7f][^\\s`]*) (.*)`\\z")

// startsTool returns the tool that a frame announces, by an event, or as Hermes v0.7 and v0.8 do,
// by a marker that is the whole content of a chunk, on a line of its own.
func (c *chunk) startsTool() (marker, bool) {
	if c == nil {
		return marker{}, false
	}
	if c.event == toolEvent && c.Status != "completed" {
		return marker{c.Emoji, c.Label}, true
	}
	line, before := strings.CutPrefix(c.content(), "\n")
	line, after := strings.CutSuffix(line, "\n")
	m := markerLine.FindStringSubmatch(line)
	if m == nil || !before || !after {
		return marker{}, false
	}
	return marker{emoji: m[1], label: m[2]}, true
}

// withoutMarkers removes the lines that look like markers, real or imitated, and returns
// how many there were.
func withoutMarkers(text string) (rest string, n int) {
	lines := strings.Split(text, "\n")
	kept := slices.DeleteFunc(slices.Clone(lines), markerLine.MatchString)
	return strings.Join(kept, "\n"), len(lines) - len(kept)
}

// cutReasoning returns what stands between tags at the beginning of a text, and the text
// without it.
func cutReasoning(text string) (reasoning, rest string) {
	inside, tagged := strings.CutPrefix(text, "<think>")
	reasoning, after, closed := strings.Cut(inside, "</think>")
	if !tagged || !closed {
		return "", text
	}
	return reasoning, strings.TrimSpace(after)
}
