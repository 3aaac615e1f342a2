package repair

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// request is one of a client that sends its calls back, with what a model imitates.
const request = `{"model":"hermes-agent","stream":true,"messages":[
 {"role":"user","content":"Which files?"},
 {"role":"assistant","content":"Let me see.\n` + "`💻 ls`" + `\n","tool_calls":[{"id":"call_1","type":"function","function":{"name":"terminal","arguments":"{\"command\": \"ls -la \\u001b[31m\"}"}}]},
 {"role":"tool","tool_call_id":"call_1","content":"secret.txt"},
 {"role":"assistant","content":"One."},
 {"role":"user","content":[{"type":"text","text":"And then?"}]}]}`

// A request is healed as a live one is, and its records are explained.
func TestRequest(t *testing.T) {
	for memory, results := range map[string]bool{"": false, memoryResults: true} {
		want, did := rewrite.Healing{Memory: unknown{}, Results: results}.Heal([]byte(request))
		got, code, err := repaired(request+"\n", repairCommand{memory: memory})
		if err != nil || code != "" || got != string(want)+"\n" || did.FromRequest != 1 || strings.Contains(got, "returned") != results {
			t.Errorf("memory %s: %v, %s\n%s", memory, err, code, got)
		}
	}
	got, _, err := repaired(request, repairCommand{explain: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a request whose history Hermes gets changed\n          §5 marker lines removed from the assistant's messages: 1\n          §8 user messages that now begin with a record of tools, from the calls in the request: 1\n",
		"  ~  the user's message begins with\n       +  [Note by the operator of this chat; the user did not write it. During the answer above, these tools ran:]\n       +  - terminal {\"command\":\"ls -la \\u001b[31m\"}: ",
		"a sidecar may add records of answers that it has seen itself",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret.txt") || strings.Contains(got, "\x1b") {
		t.Errorf("%s", got)
	}
	got, _, err = repaired(request, repairCommand{explain: true, memory: memoryOff})
	if err != nil || strings.Contains(got, "record") || !strings.Contains(got, "marker lines removed from the assistant's messages: 1") {
		t.Errorf("memory off: %v\n%s", err, got)
	}
	got, _, err = repaired(`{"messages":[{"role":"user","content":"hi"}]}`, repairCommand{explain: true})
	if err != nil || !strings.HasPrefix(got, "a request whose history needs no change: passes unchanged\n") {
		t.Errorf("nothing to do: %v\n%s", err, got)
	}
	if _, err := (&repairCommand{out: failing{}}).repair(strings.NewReader(request)); err == nil {
		t.Error("writing has failed, and no error")
	}
	// A body that is larger than an answer may be is still a request.
	large := strings.Replace(request, "Which files?", strings.Repeat("x", 2<<20), 1)
	if got, _, err := repaired(large, repairCommand{}); err != nil || !strings.Contains(got, "[Note by") {
		t.Errorf("a large request: %v, %d bytes", err, len(got))
	}
}
