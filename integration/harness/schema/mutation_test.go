package schema

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

const (
	head = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164730,"model":"hermes-agent",`
	why  = `"error":{"message":"lost","type":"upstream_error","param":null,"code":"upstream_aborted"}`
)

// samples are frames of the sidecar's own, written by the contract, by their names.
var samples = func() map[string]string {
	all := map[string]string{}
	b, err := os.ReadFile("testdata/frames.txt")
	for _, sample := range strings.Split(string(b), "\n\n# ")[1:] {
		name, frame, _ := strings.Cut(strings.TrimRight(sample, "\n"), "\n")
		all[name] = frame
	}
	if err != nil || len(all) < 40 {
		panic(fmt.Sprintf("%d samples, %v", len(all), err))
	}
	return all
}()

// harmless matches the mutants that are good frames: what the contract makes of other
// streams, and members of upstream.
var harmless = []*regexp.Regexp{
	of(`(a tool .*|status|status line|status line is taken back|approval.*|card.*|output of a card.*|a response is cut|a turn has failed|a call .*): /event is gone`), // the form unnamed, or none
	of(`(a tool .*|status|status line|status line is taken back|approval.*|card.*|output of a card.*|another event): /event is another`),                              // an event that nobody knows
	of(`.*: /data/(emoji|label|interrupted|usage|kind|hermes_choices|hermes_approval|hermes_approval_url|hermes_approval_code|event|sequence_number|timestamp|run_id|session_id|message_id|response/object) is gone`),
	of(`.*: /id is gone`),
	of(`.*: /data/(args (is gone|is empty|has one more|is an object|is another)|args/command .*|result is (gone|another))`), // what the model and the tool wrote
	of(`card ends, with details: /data/item/arguments is another`),
	of(`.*: /data/(.*/)?(id|call_id|model|tool|toolCallId|emoji|label|name|text|command|kind|message|tool_name|run_id|session_id|message_id|content|reasoning_content|hermes_approval_url) is another`),
	of(`.*: /data/(.*/)?(created|seq|ts|timestamp|sequence_number|index) is another number`),
	of(`.*: /data/event/data/description is another`),
	of(`(a run|a numbered run) is cut: /data/error is another`),
	of(`(a numbered run is cut|a run's tool): /data/seq is gone`),
	of(`a call is cut: /data/item has one more`),
	of(`a call is cut: /data/item/arguments is another`),
	of(`a call .*: /data/output_index is another number`),
	of(`.*: /data/(error/type|hermes/error|hermes/error_code|hermes_choices/\d) is another`),
	of(`.*: /data/hermes_choices is empty`),
	of(`.*: /data/hermes/(completed|partial|failed) is the other`), // in Hermes' own block
	of(`error finish, inline: /data/error is gone`),
	of(`.*: /data/usage( .*|/.*)`),
	of(`another event: /data(/a)? (is gone|is .*|has one more)`),
	of(`(a response is cut|a turn has failed): /data/response has one more`),
	of(`(text|reasoning): /data/choices/0/delta(/\w+)? (is gone|is null|is empty)`),
}

func of(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// TestMutantsAreRefused: a frame of the sidecar's is described, and no longer once a
// member is missing, has another type, is another word, or there is one too many.
func TestMutantsAreRefused(t *testing.T) {
	s := frameSchema()
	tried, spared := 0, map[*regexp.Regexp]bool{}
	for name, text := range samples {
		if err := CheckFrame(text + "\n\n"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f, err := Frame(text + "\n\n")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mutate("", f, func(did string) {
			tried++
			if s.Validate(f) != nil {
				return
			}
			for _, h := range harmless {
				if h.MatchString(name + ": " + did) {
					spared[h] = true
					return
				}
			}
			b, _ := json.Marshal(f)
			t.Errorf("%s: %s, and %s passes", name, did, b)
		})
	}
	if tried < 1000 {
		t.Errorf("%d mutants", tried)
	}
	for _, h := range harmless {
		if !spared[h] {
			t.Errorf("no mutant that passes is %s", h)
		}
	}
}

// mutate calls each with every mutant of an object, which it changes and restores.
func mutate(at string, o map[string]any, each func(did string)) {
	o["surplus"] = 1
	each(at + " has one more")
	delete(o, "surplus")
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value, here := o[name], at+"/"+name
		delete(o, name)
		each(here + " is gone")
		delete(o, name)
		for what, other := range others(value) {
			o[name] = other
			each(here + " is " + what)
		}
		o[name] = value
		below(here, value, each)
	}
}

// below mutates the members of a value.
func below(at string, value any, each func(did string)) {
	switch v := value.(type) {
	case map[string]any:
		mutate(at, v, each)
	case []any:
		for i, of := range v {
			here := fmt.Sprintf("%s/%d", at, i)
			for what, other := range others(of) {
				v[i] = other
				each(here + " is " + what)
			}
			v[i] = of
			below(here, of, each)
		}
	}
}

// others returns values that are not the value.
func others(value any) map[string]any {
	all := map[string]any{"a list of it": []any{value}, "an object": map[string]any{"x": value}}
	switch v := value.(type) {
	case string:
		all["another"], all["a number"], all["null"] = v+"x", json.Number("1"), nil
	case json.Number:
		all["another number"], all["a string"], all["null"] = v+"1", string(v), nil
	case bool:
		all["the other"], all["a string"] = !v, fmt.Sprint(v)
	case nil:
		all["a string"] = "x"
	case map[string]any:
		if delete(all, "an object"); len(v) > 0 {
			all["empty"] = map[string]any{}
		}
		all["null"] = nil
	case []any:
		delete(all, "a list of it")
		all["empty"], all["null"] = []any{}, nil
	}
	return all
}

// TestErrorsAreDescribed, and their mutants are not.
func TestErrorsAreDescribed(t *testing.T) {
	s := errorSchema()
	for _, text := range []string{
		"{" + why + "}",
		`{"error":{"message":"boom","type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}`,
		`{"title":"Events are no longer kept","status":410,"detail":"They are.","first":7}`,
		`{"title":"Unknown stream","status":404,"detail":"There is none."}`,
	} {
		if err := CheckError(text); err != nil {
			t.Error(err)
		}
		v, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		mutate("", v.(map[string]any), func(did string) {
			if strings.HasSuffix(did, "message is another") || strings.HasSuffix(did, "title is another") || strings.HasSuffix(did, "detail is another") || did == "/first is another number" {
				return
			}
			if s.Validate(v) == nil {
				b, _ := json.Marshal(v)
				t.Errorf("%s, and %s passes", did, b)
			}
		})
	}
}

// TestWatchFindsMutants in what a server other than upstream.Server writes, whatever the
// reads are; and nothing in the frames of upstream, with members that no schema knows.
func TestWatchFindsMutants(t *testing.T) {
	bad := strings.Replace(samples["a tool starts"], `"status":"running"`, `"status":"runs"`, 1) + "\n\n"
	odd := "data: {" + head + `"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null,"stop_sequence":1}],"surprise":{}}` + "\n\n"
	good := samples["a tool starts"] + "\n\n"
	for _, test := range []struct {
		name, kind, body string
		status           int
		fails            bool
	}{
		{"good", "text/event-stream", good + samples["the end"] + "\n\n", 200, false},
		{"bad", "text/event-stream", good + bad + samples["the end"] + "\n\n", 200, true},
		{"odd", "text/event-stream; charset=utf-8", odd, 200, true},
		{"an error", "application/json", "{" + why + "}\n", 502, false},
		{"an error of another form", "application/json", `{"error":"x"}`, 502, true},
		{"a problem", "application/problem+json", `{"title":"a","status":404}`, 404, true},
		{"neither", "application/json", `{"error":"x"}`, 400, false},
	} {
		for _, size := range []int{1, 7, 1 << 16} {
			if got := fails(test.kind, test.body, test.status, size); got != test.fails {
				t.Errorf("%s, %d bytes at a time: fails %t", test.name, size, got)
			}
		}
	}
	u := NewSender()
	for _, b := range []byte(odd + bad) {
		u.Write([]byte{b})
	}
	if fails("text/event-stream", odd+bad, 200, 100) {
		t.Error("what upstream has sent fails")
	}
	if fails("text/event-stream", strings.Replace(odd, "hi", "h", 1)+strings.Replace(odd, `"hi"`, `"[redacted]"`, 1), 200, 100) {
		t.Error("what upstream has sent fails once it is spliced")
	}
	torn := strings.TrimSpace(strings.Replace(bad, `"runs"`, `"token=1"`, 1))
	NewSender().Write([]byte(torn))
	if fails("text/event-stream", strings.Replace(torn, "token=1", "token=[redacted]", 1)+"\n\n", 200, 100) {
		t.Error("what upstream has sent without its end fails")
	}
	if !fails("text/event-stream", strings.Replace(odd, "surprise", "surplus", 1), 200, 100) {
		t.Error("a member that upstream has not sent passes")
	}
}

// fails reports whether a body, which is read in parts of a size, fails a test.
func fails(kind, body string, status, size int) bool {
	a := &harness.Attempt{}
	w := Watch(a, &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))})
	for b := make([]byte, size); ; {
		if _, err := w.Read(b); err != nil {
			return a.Failed()
		}
	}
}

// TestNoStatusLineBesideACard: a tool that has a card has no status line as well (contract section 2).
func TestNoStatusLineBesideACard(t *testing.T) {
	for _, name := range []string{"card", "card ends"} {
		both := strings.Replace(samples[name], `,"type":"response.`, `,"event":{"type":"status","data":{"description":"💻 ls -la","done":`+fmt.Sprint(name != "card")+`}},"type":"response.`, 1)
		if both == samples[name] || CheckFrame(both+"\n\n") == nil {
			t.Errorf("%s passes with a status line: %s", name, both)
		}
	}
}
