package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// check compares the transcripts of both sides with the recording, and returns the faults.
func (p play) check() (wrong []string) {
	side, t := "without the sidecar: ", p.left
	unless := func(well bool, format string, args ...any) {
		if !well {
			wrong = append(wrong, side+fmt.Sprintf(format, args...))
		}
	}
	// The backend's stream is the recorded one.
	unless(t.faults == nil, "%s", strings.Join(t.faults, "; "))
	unless(t.text(said) == p.content, "the content is %q, not the recorded %q", t.text(said), p.content)
	unless(t.finish == p.finish, "the finish reason is %q, not the recorded %q", t.finish, p.finish)
	broke := t.broken != nil
	unless(broke == p.aborts(), "broken connection: %v, expected: %v (%v)", broke, p.aborts(), t.broken)

	// The sidecar's stream is repaired.
	side, t = "with the sidecar: ", p.right
	unless(t.faults == nil, "%s", strings.Join(t.faults, "; "))
	unless(t.broken == nil, "the stream did not end cleanly: %v", t.broken)
	reasoning, content := cutReasoning(p.clean)
	unless(t.text(thought) == reasoning, "the reasoning is %q, not %q", t.text(thought), reasoning)
	clean, _ := withoutMarkers(content)
	same := sameText(withoutKeys(t.text(said)), withoutKeys(content))
	unless(same, "the content is %q, not %q", t.text(said), clean)

	// The tools that ran are there, in order, and each has started and completed once.
	tools := t.tools()
	unless(len(tools) == p.Tools, "%d tools are shown, but %d ran", len(tools), p.Tools)
	for i, tool := range tools[:min(len(tools), p.Tools)] {
		got, want := marker{tool.emoji, tool.label}, p.started[i]
		unless(got == want, "tool %d is %q %q, not %q %q", i+1, got.emoji, got.label, want.emoji, want.label)
		once := tool.starts == 1 && tool.ends == 1
		unless(once, "tool %d started %d times and completed %d times", i+1, tool.starts, tool.ends)
	}

	finish, failure := "stop", streamError{Message: "none"}
	if p.Code != "" {
		finish = "error"
	}
	if t.err != nil {
		failure = *t.err
	}
	unless(t.finish == finish, "the finish reason is %q, not %q", t.finish, finish)
	unless(failure.Code == p.Code, "the error code is %q, not %q", failure.Code, p.Code)
	unless(failure.Message != "", "the error has no message")
	unless(!keys.MatchString(failure.Message), "the error contains a key")
	unless(t.done, "[DONE] is missing")
	return wrong
}

// keys matches keys of a provider.
var keys = regexp.MustCompile(`\bsk-\w{16,}`)

// withoutKeys replaces keys as the sidecar does.
func withoutKeys(text string) string { return keys.ReplaceAllString(text, "[redacted]") }

// sameText reports whether got, a repaired content, is upstream's without imitated markers. If
// there is one, white space may also differ.
func sameText(got, upstream string) bool {
	clean, markers := withoutMarkers(upstream)
	return got == upstream && markers == 0 || markers > 0 && slices.Equal(strings.Fields(got), strings.Fields(clean))
}
