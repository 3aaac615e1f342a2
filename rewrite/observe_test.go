package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// told repairs in and returns the tool events that were told, one a line.
func told(in string, o Options, cause Cause) (string, Summary) {
	var b strings.Builder
	p := chatParams
	p.OnTool = func(e ToolEvent) {
		status := "running"
		if e.Completed {
			status = "completed"
		}
		fmt.Fprintf(&b, "%s %s %s\n", e.Name, status, e.Source)
	}
	_, sum := run(in, o, p, oneByte, cause)
	return b.String(), sum
}

func TestToolsAreTold(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		cause    Cause
		want     string
	}{
		{"markers and text", markerChunk("💻", "ls") + markerChunk("📖", "a") + text("Hi") + stop(), Options{}, CauseEOF,
			"terminal running marker\nread_file running marker\nterminal completed inferred\nread_file completed inferred\n"},
		{"a crash", markerChunk("💻", "ls"), Options{}, CauseAborted, "terminal running marker\nterminal completed end\n"},
		{"upstream's own", g2Start("terminal", "💻", "ls", "1") + g2End("terminal", "1") + stop(), Options{}, CauseEOF,
			"terminal running upstream\nterminal completed upstream\n"},
		{"upstream's starts", g1("terminal", "💻", "ls") + text("Hi") + stop(), Options{}, CauseEOF,
			"terminal running upstream\nterminal completed inferred\n"},
		{"trusted", texts("a\n`💻 ls`\nb") + stop(), Options{Imitations: ImitationsTrust}, CauseEOF,
			"terminal running imitation\nterminal completed inferred\n"},
		{"not shown to the client", markerChunk("💻", "ls") + text("Hi") + stop(), Options{Progress: ProgressOff}, CauseEOF,
			"terminal running marker\nterminal completed inferred\n"},
		{"internal", g2Start("_x", "💻", "ls", "1") + g2End("_x", "1") + stop(), Options{}, CauseEOF, ""},
	} {
		got, _ := told(c.in, c.o, c.cause)
		same(t, got, c.want, c.name)
	}
}

// TestToolsToldAreThoseSent over the recordings: the client sees the same.
func TestToolsToldAreThoseSent(t *testing.T) {
	for _, r := range chats(t) {
		for _, cause := range []Cause{CauseEOF, CauseAborted} {
			body := r.body[:len(r.body)*2/3]
			got, _ := told(body, Options{}, cause)
			out, _ := run(body, Options{}, chatParams, inOne, cause)
			var want strings.Builder
			for _, e := range look(t, out).tools {
				fmt.Fprintf(&want, "%s %s\n", e.tool, e.status)
			}
			var sent strings.Builder
			for line := range strings.Lines(got) {
				f := strings.Fields(line)
				fmt.Fprintf(&sent, "%s %s\n", f[0], f[1])
			}
			same(t, sent.String(), want.String(), r.name())
		}
	}
}

func TestSummaryHasTheTokens(t *testing.T) {
	_, sum := told(text("Hi")+stop(), Options{}, CauseEOF)
	if sum.InputTokens != 1234 || sum.OutputTokens != 56 {
		t.Errorf("tokens: %d, %d", sum.InputTokens, sum.OutputTokens)
	}
	_, sum = told(text("Hi")+finishChunk("stop", `, "usage": {"prompt_tokens": -1, "completion_tokens": "x", "total_tokens": 1e99}`)+doneFrame, Options{}, CauseEOF)
	if sum.InputTokens != 0 || sum.OutputTokens != 0 {
		t.Errorf("tokens of no numbers: %d, %d", sum.InputTokens, sum.OutputTokens)
	}
}
