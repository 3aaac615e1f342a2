package replay

import (
	"fmt"
	"slices"
	"strings"
)

// check compares what both sides have received with what the recording says
// they must have, and returns what is wrong.
func (p play) check() []string {
	var wrong []string
	for _, fault := range p.checkLeft() {
		wrong = append(wrong, "without the sidecar: "+fault)
	}
	for _, fault := range p.checkRight() {
		wrong = append(wrong, "with the sidecar: "+fault)
	}
	return wrong
}

// checkLeft checks that the backend's stream is the recorded one.
func (p play) checkLeft() []string {
	s, t := p.scenario, p.left
	wrong := slices.Clone(t.Faults)
	if got, want := t.Content(), s.content(); got != want {
		wrong = append(wrong, fmt.Sprintf("the content is %q, not the recorded %q", got, want))
	}
	if t.Finish != s.finish() {
		wrong = append(wrong, fmt.Sprintf("the finish reason is %q, not the recorded %q", t.Finish, s.finish()))
	}
	if broke := t.Broken != nil; broke != s.Aborts {
		wrong = append(wrong, fmt.Sprintf("broken connection: %v, expected: %v (%v)", broke, s.Aborts, t.Broken))
	}
	return wrong
}

// checkRight checks that the sidecar's stream is repaired.
func (p play) checkRight() []string {
	s, t := p.scenario, p.right
	wrong := slices.Clone(t.Faults)
	if t.Broken != nil {
		wrong = append(wrong, fmt.Sprintf("the stream did not end cleanly: %v", t.Broken))
	}
	started, content := s.tools()
	reasoning, content := s.reasoning(content)
	if got := t.Reasoning(); got != reasoning {
		wrong = append(wrong, fmt.Sprintf("the reasoning is %q, not %q", got, reasoning))
	}
	if !sameText(t.Content(), content) {
		wrong = append(wrong, fmt.Sprintf("the content is %q, not %q", t.Content(), withoutMarkers(content)))
	}
	wrong = append(wrong, checkTools(t.Tools(), started)...)
	return append(wrong, checkEnd(t, s.Code)...)
}

// sameText compares a repaired content with upstream's. They are the same but
// for imitated markers: where there is one, white space may differ as well.
func sameText(got, upstream string) bool {
	if markerLines(upstream) == 0 {
		return got == upstream
	}
	return slices.Equal(strings.Fields(got), strings.Fields(withoutMarkers(upstream)))
}

// checkTools checks that the tools that ran are there, in order, and that each
// has started and completed once.
func checkTools(got []*Tool, want []marker) []string {
	var wrong []string
	if len(got) != len(want) {
		wrong = append(wrong, fmt.Sprintf("%d tools are shown and %d ran", len(got), len(want)))
	}
	for i, tool := range got {
		if i < len(want) && (tool.Emoji != want[i].emoji || tool.Label != want[i].label) {
			wrong = append(wrong, fmt.Sprintf("tool %d is %q %q, not %q %q",
				i+1, tool.Emoji, tool.Label, want[i].emoji, want[i].label))
		}
		if tool.Starts != 1 || tool.Ends != 1 {
			wrong = append(wrong, fmt.Sprintf("tool %d started %d times and completed %d times", i+1, tool.Starts, tool.Ends))
		}
	}
	return wrong
}

// checkEnd checks the end of a repaired stream: code is the error in which it
// ends, "" for none.
func checkEnd(t *Transcript, code string) []string {
	var wrong []string
	finish := "stop"
	if code != "" {
		finish = "error"
	}
	if t.Finish != finish {
		wrong = append(wrong, fmt.Sprintf("the finish reason is %q, not %q", t.Finish, finish))
	}
	got := ""
	if t.Err != nil {
		got = t.Err.Code
	}
	if got != code {
		wrong = append(wrong, fmt.Sprintf("the error code is %q, not %q", got, code))
	}
	if t.Err != nil && t.Err.Message == "" {
		wrong = append(wrong, "the error has no message")
	}
	if !t.Done {
		wrong = append(wrong, "there is no [DONE]")
	}
	return wrong
}
