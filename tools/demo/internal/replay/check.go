package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// faults are the errors of a scenario.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// unless adds a fault, unless all is well.
func (f *faults) unless(well bool, format string, args ...any) {
	if !well {
		f.add(format, args...)
	}
}

// check compares what both sides have received with what the recording says
// they must have, and returns the faults.
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
func (p play) checkLeft() faults {
	s, t := p.scenario, p.left
	wrong := slices.Clone(t.Faults)
	wrong.unless(t.Content() == s.content(), "the content is %q, not the recorded %q", t.Content(), s.content())
	wrong.unless(t.Finish == s.finish(), "the finish reason is %q, not the recorded %q", t.Finish, s.finish())
	broke := t.Broken != nil
	wrong.unless(broke == s.Aborts, "broken connection: %v, expected: %v (%v)", broke, s.Aborts, t.Broken)
	return wrong
}

// checkRight checks that the sidecar's stream is repaired.
func (p play) checkRight() faults {
	s, t := p.scenario, p.right
	wrong := slices.Clone(t.Faults)
	wrong.unless(t.Broken == nil, "the stream did not end cleanly: %v", t.Broken)
	started, content := s.tools()
	reasoning, content := s.reasoning(content)
	wrong.unless(t.Reasoning() == reasoning, "the reasoning is %q, not %q", t.Reasoning(), reasoning)
	clean, _ := withoutMarkers(content)
	wrong.unless(sameText(withoutKeys(t.Content()), withoutKeys(content)), "the content is %q, not %q", t.Content(), clean)

	// The tools that ran are there, in order, and each has started and completed once.
	tools := t.Tools()
	wrong.unless(len(tools) == len(started), "%d tools are shown and %d ran", len(tools), len(started))
	for i, tool := range tools {
		if i < len(started) {
			got, want := marker{tool.Emoji, tool.Label}, started[i]
			wrong.unless(got == want, "tool %d is %q %q, not %q %q", i+1, got.emoji, got.label, want.emoji, want.label)
		}
		wrong.unless(tool.Starts == 1 && tool.Ends == 1, "tool %d started %d times and completed %d times", i+1, tool.Starts, tool.Ends)
	}

	finish, code := "stop", ""
	if s.Code != "" {
		finish = "error"
	}
	wrong.unless(t.Finish == finish, "the finish reason is %q, not %q", t.Finish, finish)
	if t.Err != nil {
		code = t.Err.Code
	}
	wrong.unless(code == s.Code, "the error code is %q, not %q", code, s.Code)
	wrong.unless(t.Err == nil || t.Err.Message != "", "the error has no message")
	wrong.unless(t.Err == nil || !keys.MatchString(t.Err.Message), "a key is in the error")
	wrong.unless(t.Done, "there is no [DONE]")
	return wrong
}

// keys matches keys of a provider.
var keys = regexp.MustCompile(`\bsk-\w{16,}`)

// withoutKeys replaces keys as the sidecar does.
func withoutKeys(text string) string { return keys.ReplaceAllString(text, "[redacted]") }

// sameText compares a repaired content with upstream's. They are the same but
// for imitated markers: where there is one, white space may differ as well.
func sameText(got, upstream string) bool {
	clean, markers := withoutMarkers(upstream)
	return got == upstream && markers == 0 || markers > 0 && slices.Equal(strings.Fields(got), strings.Fields(clean))
}
