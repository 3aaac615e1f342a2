package rewrite

import (
	"strings"
	"testing"
)

// chunkWith is a chunk with text and those of the envelope's members that are given.
func chunkWith(members string) string {
	return `data: {"object": "chat.completion.chunk"` + members + `, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": null}]}` + "\n\n"
}

// What the sidecar writes carries the id, the time and the model of the chunks
// around it (contract section 2), each as a chunk has said it last.
func TestEnvelopeIsWhatChunksHaveSaidLast(t *testing.T) {
	long := strings.Repeat("m", maxEnvelope-2) // as a JSON string it is as long as is taken over
	for _, c := range []struct {
		name, in, want string // id, created and model of the error finish
	}{
		{"all in one", chunkWith(`, "id": "a", "created": 5, "model": "m"`), `"a" 5 "m"`},
		{"none", chunkWith(``), `"chatcmpl-none" 1700000000 "hermes-agent"`},
		{"no model", chunkWith(`, "id": "a", "created": 5`), `"a" 5 "hermes-agent"`},
		{"no time", chunkWith(`, "id": "a", "model": "m"`), `"a" 1700000000 "m"`},
		{"no id", chunkWith(`, "created": 5, "model": "m"`), `"chatcmpl-none" 5 "m"`},
		{"a model, then none", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 6`), `"b" 6 "m"`},
		{"a time, then none", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "model": "n"`), `"b" 5 "n"`},
		{"an id, then none", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "created": 6, "model": "n"`), `"a" 6 "n"`},
		{"only the id changes", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 5, "model": "m"`), `"b" 5 "m"`},
		{"only the time changes", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "a", "created": 6, "model": "m"`), `"a" 6 "m"`},
		{"only the model changes", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "a", "created": 5, "model": "n"`), `"a" 5 "n"`},
		{"a longer id, a shorter model", chunkWith(`, "id": "a", "created": 5, "model": "mm"`) + chunkWith(`, "id": "bb", "created": 5, "model": "n"`), `"bb" 5 "n"`},
		{"only a longer id", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "ab", "created": 5, "model": "m"`), `"ab" 5 "m"`},
		{"only a longer time", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "a", "created": 56, "model": "m"`), `"a" 56 "m"`},
		{"only a longer model", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "a", "created": 5, "model": "mn"`), `"a" 5 "mn"`},
		{"a shorter time, a longer model", chunkWith(`, "id": "a", "created": 55, "model": "m"`) + chunkWith(`, "id": "a", "created": 6, "model": "nn"`), `"a" 6 "nn"`},
		{"the first again", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 5, "model": "m"`+realUsage) + chunkWith(`, "id": "a", "created": 5, "model": "m"`), `"a" 5 "m"`},
		{"an event that is wrapped", named("x", `{"object": "chat.completion.chunk", "id": "a", "created": 5, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`), `"a" 5 "m"`},
		{"empty ones", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "", "created": null, "model": ""`), `"a" 5 "m"`},
		{"null", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": null, "created": null, "model": null`), `"a" 5 "m"`},
		{"none of their kind", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": 1, "created": "6", "model": ["n"]`), `"a" 5 "m"`},
		{"below no digit", chunkWith(`, "id": "a", "created": -5, "model": "m"`), `"a" 1700000000 "m"`},
		{"the first digit and the last", chunkWith(`, "id": "a", "created": 0, "model": "m"`) + chunkWith(`, "id": "a", "created": 9, "model": "m"`), `"a" 9 "m"`},
		{"zero", chunkWith(`, "id": "a", "created": 0, "model": "m"`), `"a" 0 "m"`},
		{"as long as may be", chunkWith(`, "id": "a", "created": 5, "model": "` + long + `"`), `"a" 5 "` + long + `"`},
		{"too long", chunkWith(`, "id": "a", "created": 5, "model": "m` + long + `"`), `"a" 5 "hermes-agent"`},
		{"a time that is too long", chunkWith(`, "id": "a", "created": ` + strings.Repeat("1", maxEnvelope+1) + `, "model": "m"`), `"a" 1700000000 "m"`},
	} {
		out := repair(c.in)
		end := strings.Index(out, "data: {\"error\"")
		if end < 0 || out[:end] != c.in {
			t.Errorf("%s: the chunks are changed:\n%s", c.name, out)
			continue
		}
		finish := out[end:]
		finish = finish[strings.Index(finish, "\n\n")+2:]
		got := memberAsItStands(finish, "id") + " " + memberAsItStands(finish, "created") + " " + memberAsItStands(finish, "model")
		same(t, got, c.want, c.name+": id, created, model")
	}
}

// memberAsItStands returns the value of a member of a chunk of the sidecar's own, which
// has no space in it.
func memberAsItStands(chunk, name string) string {
	_, rest, _ := strings.Cut(chunk, `"`+name+`":`)
	if i := strings.IndexAny(rest, ",}"); i >= 0 {
		return rest[:i]
	}
	return rest
}

// The ids of tools that have none are made of the completion's id: another
// completion's tools have others, and those of one whose id stays have the same.
func TestToolsFollowTheEnvelopeWhateverOfItChanges(t *testing.T) {
	first := chunkWith(`, "id": "a", "created": 5, "model": "m"`)
	for _, then := range []string{
		chunkWith(`, "id": "a", "created": 6, "model": "m"`),
		chunkWith(`, "id": "a", "created": 66, "model": "mm"`),
		chunkWith(`, "id": "a", "created": 66`),
	} {
		out := repair(first + g1("terminal", "💻", "ls") + then + g1("terminal", "💻", "pwd"))
		events := toolFrames(out)
		if len(events) != 4 {
			t.Fatalf("%d tool events in\n%s", len(events), out)
		}
		for _, name := range []string{"id", "created", "model"} {
			want := memberAsItStands(strings.ReplaceAll(then, `": `, `":`), name)
			if want == "" || !strings.Contains(then, `"`+name+`"`) {
				want = memberAsItStands(events[0], name)
			}
			if got := memberAsItStands(events[2], name); got != want {
				t.Errorf("behind %s a tool has the %s %s, want %s", then, name, got, want)
			}
		}
		if a, b := memberAsItStands(events[0], "toolCallId"), memberAsItStands(events[2], "toolCallId"); a[:20] != b[:20] {
			t.Errorf("the ids of tools are of two completions: %s, %s", a, b)
		}
	}
}
