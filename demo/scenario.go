package demo

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// recordings are streams of Hermes, byte for byte as they were recorded, in a directory
// for each release, and the scenarios that replay them.
//
//go:embed recordings
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

// A step is a frame of a replay.
type step struct {
	delay time.Duration // passes before the frame is sent
	frame []byte
}

// A scenario is a recorded stream and its expected result. The exported members are those of
// recordings/scenarios.json and of the JSON that the page gets.
type scenario struct {
	Name    string `json:"name"`    // chooses the scenario; it is the name of a model as well
	Short   string `json:"short"`   // names the choice on the page
	Title   string `json:"title"`   // says in a few words what happens
	About   string `json:"about"`   // says in a sentence what to look at
	Prompt  string `json:"prompt"`  // a question that the recording could be the answer to
	Release string `json:"release"` // the Hermes that was recorded
	Code    string `json:"code"`    // the error code in which the repaired stream ends, "" if all goes well
	// OpenWebUI says that the client that shows it is Open WebUI, which knows cards
	// and status lines instead of Hermes' events.
	OpenWebUI bool `json:"openWebUI"`

	Shown       bool   `json:"shown"`       // when no scenario is chosen
	Recording   string `json:"recording"`   // file name without .sse, "" for Name
	Parallel    bool   `json:"parallel"`    // tools that start back to back
	ToolSeconds int    `json:"toolSeconds"` // how long each tool runs, 0 for the usual time
	Frames      int    `json:"frames"`      // whole ones before the backend is killed, 0 for all of them

	// What the recording says.
	Tools   int      `json:"tools"` // how many really start, by a marker or by an event
	started []marker // these tools
	steps   []step
	content string // the text of the answer as the backend sends it
	clean   string // content without the announcements of tools
	finish  string // the finish reason that the backend sends, "" for none
}

// scenarios returns the scenarios, in the order in which they are shown. It panics if the embedded
// files are not valid, which no input can cause.
var scenarios = sync.OnceValue(func() (all []scenario) {
	list, err := recordings.ReadFile("recordings/scenarios.json")
	if err == nil {
		err = json.Unmarshal(list, &all)
	}
	for i := range all {
		var stream []byte
		if stream, err = recordings.ReadFile(all[i].file()); err != nil {
			break
		}
		all[i].pace(stream)
	}
	if err != nil {
		panic(fmt.Sprintf("demo: reading the scenarios: %v", err))
	}
	return all
})

// file returns the name of the recording.
func (s *scenario) file() string {
	return path.Join("recordings", s.Release, cmp.Or(s.Recording, s.Name)+".sse")
}

// choose returns the scenarios with the names, in that order, or those that are shown by default
// if there are no names. An unknown name is an error that lists the known ones.
func choose(names []string) (chosen []scenario, err error) {
	for _, s := range scenarios() {
		if s.Shown && len(names) == 0 {
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

// pace cuts a recorded stream into its frames, gives each its delay, and notes what it says.
func (s *scenario) pace(stream []byte) {
	inTool := false
	for frame := range bytes.SplitAfterSeq(stream, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		if s.Frames > 0 && len(s.steps) == s.Frames {
			s.steps = append(s.steps, step{killDelay, frame[:len(frame)/2]})
			break
		}
		e := parseFrame(frame)
		content := e.str("choices.0.delta.content")
		tool, starts := e.startsTool()
		delay := tokenDelay
		switch {
		case len(s.steps) == 0:
			delay = firstDelay
		case bytes.Contains(frame, []byte("[DONE]")):
			delay = 0 // written together with the finish
		case starts && inTool && s.Parallel:
			delay = 0
		case inTool:
			delay = cmp.Or(time.Duration(s.ToolSeconds)*time.Second, toolTime)
		case starts:
			delay = callDelay
		}
		// A tool goes on after a comment, and after a question that it waits for.
		inTool = starts || inTool && (frame[0] == ':' || bytes.HasPrefix(frame, []byte("event: approval.request")))
		s.steps = append(s.steps, step{delay, frame})
		s.content += content
		if starts {
			s.started = append(s.started, tool)
		} else {
			s.clean += content
		}
		s.finish = cmp.Or(s.finish, e.str("choices.0.finish_reason"))
	}
	s.Tools = len(s.started)
}

// aborts reports whether the connection is cut after the last step.
func (s scenario) aborts() bool { return s.Frames > 0 }

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
func (e event) startsTool() (marker, bool) {
	if e.name == toolEvent && e.str("status") != "completed" {
		return marker{e.str("emoji"), e.str("label")}, true
	}
	line, before := strings.CutPrefix(e.str("choices.0.delta.content"), "\n")
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

// cutReasoning returns the reasoning between tags at the beginning of text, and the rest of text.
func cutReasoning(text string) (reasoning, rest string) {
	inside, tagged := strings.CutPrefix(text, "<think>")
	reasoning, after, closed := strings.Cut(inside, "</think>")
	if !tagged || !closed {
		return "", text
	}
	return reasoning, strings.TrimSpace(after)
}
