package replay

import (
	"strings"
	"testing"
	"time"
)

// transcribe reads a stream; each frame arrives 100 ms after the one before.
func transcribe(stream string) *Transcript {
	t := new(Transcript)
	now := time.Unix(1_800_000_000, 0)
	t.End(readFrames(strings.NewReader(stream), func(f Frame) {
		now = now.Add(100 * time.Millisecond)
		t.Add(f, now)
	}))
	return t
}

func TestTranscriptOfALegacyStreamHasTheMarkerInTheText(t *testing.T) {
	got := transcribe(string(recording(t, "g0-v0.8.0", "one_tool")))
	if got.Content() != "Let me check.\n`💻 ls -la`\n\n\nThere are 3 files." || len(got.Tools()) != 0 ||
		got.Finish != "stop" || !got.Done || got.Err != nil || len(got.Faults) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestTranscriptOfAModernStreamHasToolCards(t *testing.T) {
	got := transcribe(string(recording(t, "g3-v0.20.3", "parallel_tools")))
	if got.Content() != "Looking at three things.\n\nAll three done." || len(got.Faults) != 0 {
		t.Errorf("content %q, faults %q", got.Content(), got.Faults)
	}
	labels := ""
	for _, tool := range got.Tools() {
		labels += tool.Emoji + tool.Name + " " + tool.Label + ";"
		if tool.Starts != 1 || tool.Ends != 1 || !tool.Ended.After(tool.Started) {
			t.Errorf("tool %+v", tool)
		}
	}
	if labels != "📖read_file a.go;🔎search_files func main;🔍web_search golang sse;" {
		t.Errorf("tools %s", labels)
	}
}

func TestTranscriptOfAModernCrashHasTheError(t *testing.T) {
	got := transcribe(string(recording(t, "g3-v0.20.3", "crash_after_text")))
	if got.Err == nil || got.Err.Message != "boom after text" || got.Finish != "error" {
		t.Errorf("error %+v, finish %q", got.Err, got.Finish)
	}
}

func TestTranscriptNotesWhatNoStreamMayContain(t *testing.T) {
	for stream, want := range map[string]string{
		"data: {\n\n": "no JSON",
		"event: hermes.tool.progress\ndata: {\"toolCallId\":\"a\",\"status\":\"completed\"}\n\n": "without having started",
		"event: hermes.tool.progress\ndata: {\"toolCallId\":\"a\",\"status\":\"odd\"}\n\n":       "unknown status",
	} {
		got := transcribe(stream)
		if len(got.Faults) != 1 || !strings.Contains(got.Faults[0], want) {
			t.Errorf("%q: faults %q, want one with %q", stream, got.Faults, want)
		}
	}
}

func TestTranscriptDropsATornFrame(t *testing.T) {
	if got := transcribe("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"); got.Content() != "" || len(got.Frames) != 1 {
		t.Errorf("content %q of %d frames", got.Content(), len(got.Frames))
	}
}
