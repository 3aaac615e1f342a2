package caddymodule

import (
	"strings"
	"testing"
	"time"
)

// Answers of an upstream that reports its failures itself, and of one that is too
// old for that.
const (
	failedStop = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"message":"quota"},"hermes":{"completed":false}}` + "\n\ndata: [DONE]\n\n"
	oldMarker  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"\n` + "`💻 ls`" + `\n"},"finish_reason":null}]}` + "\n\n"
)

// A sidecar is a handler with the storage of its configurations.
type sidecar struct {
	*Handler
	t            *testing.T
	options, dir string
	cleanup      func()
}

func newSidecar(t *testing.T, options string) *sidecar {
	t.Helper()
	s := &sidecar{t: t, options: options, dir: t.TempDir()}
	s.Handler, s.cleanup = provision(t, options, s.dir)
	return s
}

// What may happen to a sidecar, in place of an upstream's answer.
const reload, restart = "reload", "restart"

// again is a reload or a restart, if what says so.
func (s *sidecar) again(what string) bool {
	s.t.Helper()
	switch old := s.cleanup; what {
	case reload:
		s.Handler, s.cleanup = provision(s.t, s.options, s.dir)
		old()
	case restart:
		old()
		s.Handler, s.cleanup = provision(s.t, s.options, s.dir)
		look(s.Handler)
	default:
		return false
	}
	return true
}

// look has a handler look in storage, and waits for that, however slow it is.
func look(h *Handler) {
	_ = h.usage.Of("a:1").Reported("hermes-agent")
	h.usage.Flush(time.Hour)
}

// TestAnswersWithoutUsage pass, byte for byte, or are taken for a crash, by what upstream has
// shown before, through reloads and restarts.
func TestAnswersWithoutUsage(t *testing.T) {
	const used, unused, failed, old = textFrame + usedStop, textFrame + zeroStop, textFrame + failedStop, oldMarker + textFrame + usedStop
	type step struct{ upstream, body, end string } // end is "pass", "crash" or, for neither, ""
	for name, steps := range map[string][]step{
		// The operator has changed it, and the fourth answer passes. A restart begins the count anew:
		// what is kept is whether the pair reports usage. Package usage has the other ways to count.
		"a provider that reports no usage any more": {
			{"a:1", unused, "pass"}, {"a:1", used, "pass"}, {"b:1", unused, "pass"},
			{"a:1", unused, "crash"}, {"", reload, ""}, {"a:1", unused, "crash"}, {"", restart, ""},
			{"a:1", unused, "crash"}, {"a:1", unused, "crash"}, {"a:1", unused, "crash"}, {"a:1", unused, "pass"},
		},
		"an upstream that reports its failures": {
			{"a:1", used, "pass"}, {"a:1", unused, "crash"}, {"b:1", used, "pass"}, {"b:1", unused, "crash"},
			{"a:1", failed, ""}, {"a:1", unused, "pass"}, {"b:1", unused, "crash"},
			{"", restart, ""}, {"a:1", unused, "pass"}, {"a:1", old, ""}, {"a:1", unused, "crash"},
		},
	} {
		sidecar := newSidecar(t, "")
		for i, s := range steps {
			if sidecar.again(s.body) {
				continue
			}
			got, end := serve(t, sidecar.Handler, answer(s.upstream, s.body)).Body.String(), ""
			if got == s.body {
				end = "pass"
			} else if strings.Contains(got, `"code":"agent_crashed"`) && strings.HasSuffix(got, "data: [DONE]\n\n") {
				end = "crash"
			}
			if s.end != "" && end != s.end {
				t.Errorf("%s, step %d: %q, want %q; the answer is\n%s", name, i+1, end, s.end, got)
			}
		}
		sidecar.cleanup()
	}
}
