package repair

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
)

func TestExplanation(t *testing.T) {
	got, code, err := repaired(read(t, "g0-v0.8.0", "one_tool.sse"), repairCommand{explain: true, width: 80})
	if err != nil || code != "" {
		t.Fatalf("%s, %v", code, err)
	}
	for _, want := range []string{
		"    1  =  data: {… \"choices\"", "    4  ~  data: {… \"choices\"", "\n          §1 a tool marker, the whole content of one chunk: removed from the text\n",
		"\n          §2 tool terminal starts: its marker is here\n       +  event: hermes.tool.progress\n       +  data: {… ", "§2 tool terminal has ended: what follows proves it",
		"=  data: [DONE]\n", "\nended well, finish_reason stop, id chatcmpl-",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(line)); n > 80+12 && !strings.HasPrefix(line, "ended") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, in := range []string{
		"event: hermes.tool.progress\ndata: {\"tool\": \"evil\\u001b]0;x\\u0007\\nfake\", \"emoji\": \"x\", \"label\": \"\\u202ey\"}\n\n",
		"data: {\"choices\": [\u202e\u2028\n\n",
		"data: {\"choices\": [\x1b[31m\n\n",
	} {
		meta := recording.Meta{Path: "/v1/chat/completions", Outcome: "\x1b"}
		got, _, err := repaired(in, repairCommand{explain: true, meta: meta})
		if err != nil || strings.ContainsAny(got, "\x1b\x07\u202e\u2028") || strings.Contains(got, "\nfake") {
			t.Errorf("a terminal acts upon it: %v, %q", err, got)
		}
	}
}
