package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

const (
	keyOfTests = "sk-abcdefghijklmnop1234567890"
	// saidText is how Hermes 0.22 ends a turn that failed at the provider.
	saidText = "custom rejected your API key, so the model can't be reached.\n\nProvider said: HTTP 401: scripted failure 401 " + keyOfTests
)

// What a provider says of a failure, which Hermes 0.22 writes into the text, loses its
// secrets, and nothing else changes but what the error finish changes anyway.
func TestSecretsThatAProviderSaid(t *testing.T) {
	for _, r := range chats(t, "live-g5-v0.22.2") {
		if !strings.Contains(r.body, "Provider said: ") {
			continue
		}
		for _, o := range allOptions() {
			out := repairWith(r.body, o)
			if strings.Contains(out, keyOfTests) {
				t.Fatalf("%s with %+v: the key leaves:\n%s", r.name(), o, out)
			}
			v := look(t, out)
			same(t, v.content, strings.Replace(look(t, r.body).content, keyOfTests, redacted, 1), r.name()+": contents")
			if len(v.finishes) != 1 || v.finishes[0] != "error" {
				t.Errorf("%s: finish %q", r.name(), v.finishes)
			}
			for _, cut := range []cutter{oneByte, byFrame(r.body), atRandom(4, 90)} {
				again, _ := run(r.body, o, chatParams, cut, CauseEOF)
				same(t, again, out, r.name()+": outputs of two cuts")
			}
			same(t, repairWith(out, o), out, r.name()+": twice and once")
		}
	}
}

// In each text the secrets go that stand after the words at the start of a line, to the
// end of that text. All other bytes stay.
func TestWhereAProviderSaidIt(t *testing.T) {
	const s, gone = "Provider said: HTTP 401: " + keyOfTests, "Provider said: HTTP 401: " + redacted
	for _, c := range []struct{ in, want string }{
		{s, gone},
		{"a\n" + s, "a\n" + gone},
		{"a\r\n" + s + ".", "a\r\n" + gone + "."},
		{keyOfTests + "\n\n" + s, keyOfTests + "\n\n" + gone},
		{s + "\nb\n" + keyOfTests + "\nBearer abc", gone + "\nb\n" + redacted + "\nBearer " + redacted},
		{s + "\n" + s, gone + "\n" + gone},
		{"He and the " + s, "He and the " + s},
		{"He and the " + s + "\n" + s, "He and the " + s + "\n" + gone},
		{"a\n  " + s, "a\n  " + s},
		{"provider said: " + keyOfTests, "provider said: " + keyOfTests},
		{"Provider said " + keyOfTests, "Provider said " + keyOfTests},
		{"Provider said: ", "Provider said: "},
		{"Provider said: none of your business", "Provider said: none of your business"},
		{"> " + s, "> " + s},
		{"a > " + s, "a > " + s},
		{"Details: " + keyOfTests, "Details: " + keyOfTests},
	} {
		for _, json := range []string{asciiJSON(c.in), rawJSON(c.in), strings.ReplaceAll(asciiJSON(c.in), "P", `\u0050`), strings.ReplaceAll(asciiJSON(c.in), "s", `\u0073`)} {
			chunk := delta(`"content": ` + json)
			in := role() + text("Let me see. ") + text("x") + chunk + text(" and "+keyOfTests) + stop()
			out := repair(in)
			same(t, look(t, out).content, "Let me see. x"+c.want+" and "+keyOfTests, fmt.Sprintf("%q: contents", c.in))
			if c.in == c.want {
				same(t, out, in, fmt.Sprintf("%q: bytes", c.in))
			}
			same(t, repair(out), out, fmt.Sprintf("%q: twice and once", c.in))
			for _, cut := range []cutter{oneByte, byFrame(in)} {
				again, _ := run(in, Options{}, chatParams, cut, CauseEOF)
				same(t, again, out, "outputs of two cuts")
			}

			// The same text where it is not streamed, and in the other streams.
			a := RepairAnswer([]byte(completion(`, "content": `+json, "stop", realUsage)), &Options{}, nil)
			same(t, messageOf(t, a.Body).Content, c.want, fmt.Sprintf("%q: contents of an answer", c.in))
			for i, in := range []string{sessionAnswer(json), responseAnswer(json, someTokens, "")} {
				a := RepairAnswer([]byte(in), &Options{}, nil)
				if got := textsOf(t, string(a.Body)); len(got) != 1 || got[0] != c.want || a.Changed != (c.in != c.want) {
					t.Errorf("answer %d: %q, %v, want %q", i, got, a.Changed, c.want)
				}
			}
			streamed := turnStream(json, someTokens)
			out, _ = run(streamed, Options{}, Params{Responses: true}, oneByte, CauseEOF)
			for _, got := range textsOf(t, out) {
				if got != c.want && got != "Let me see." {
					t.Errorf("a text of a response is %q, want %q", got, c.want)
				}
			}
			if n := len(textsOf(t, out)); n != 5 {
				t.Errorf("%d texts", n)
			}
			if c.in == c.want {
				same(t, out, streamed, "bytes of a response")
			}
			again, _ := run(out, Options{}, Params{Responses: true}, inOne, CauseEOF)
			same(t, again, out, "outputs of a second sidecar")
			in = sessionFrame("assistant.delta", `"delta": `+json, 1) + sessionFrame("assistant.completed", `"message_id": "m", "content": `+json+`, "completed": true`, 2) + sessionFrame("done", "", 3)
			out, _ = run(in, Options{}, sessionParams, oneByte, CauseEOF)
			if got := textsOf(t, out); len(got) != 2 || got[0] != c.in || got[1] != c.want {
				t.Errorf("the texts of a session are %q", got)
			}
		}
		if t.Failed() {
			t.Fatalf("%q", c.in)
		}
	}
}

// sessionAnswer is the answer of a session that is not streamed, with the content, JSON.
func sessionAnswer(content string) string {
	return `{"object": "hermes.session.chat.completion", "session_id": "s", "message": {"role": "assistant", "content": ` + content + `}, "usage": {"input_tokens": 0}, "runtime": {"model": "` + keyOfTests + `"}}`
}

const (
	someTokens = `{"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}`
	noTokens   = `{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`
)

// responseAnswer is a response with the text, JSON, after other items.
func responseAnswer(text, usage, items string) string {
	return `{"id": "resp_1", "object": "response", "status": "completed", "created_at": 1795385777, "model": "hermes-agent", "output": [` + items +
		`{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ` + text + `}]}], "usage": ` + usage + `}`
}

// turnStream is a stream of /v1/responses as Hermes 0.22 writes it, with the text, JSON, in
// its four places, after a comment of the model's.
func turnStream(text, usage string) string {
	var b strings.Builder
	seq := 0
	write := func(name, members string) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\": \"%s\", %s, \"sequence_number\": %d}\n\n", name, name, members, seq)
		seq++
	}
	write("response.created", `"response": {"id": "resp_1", "object": "response", "status": "in_progress", "created_at": 1795385777, "model": "hermes-agent", "output": []}`)
	write("response.output_item.done", `"output_index": 0, "item": {"id": "msg_0", "status": "completed", "phase": "commentary", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]}`)
	write("response.output_item.added", `"output_index": 1, "item": {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}`)
	write("response.output_text.delta", `"item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": `+text+`, "logprobs": []`)
	write("response.output_text.done", `"item_id": "msg_1", "output_index": 1, "content_index": 0, "text": `+text+`, "logprobs": []`)
	write("response.output_item.done", `"output_index": 1, "item": {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": `+text+`}]}`)
	write("response.completed", `"response": `+responseAnswer(text, usage, ""))
	return b.String()
}

// textsOf returns the texts of answers in a stream, or in an answer that is not streamed:
// the strings that are the value of content, of text or of delta, in order.
func textsOf(t testing.TB, in string) (texts []string) {
	t.Helper()
	for line := range strings.Lines(in) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if !strings.HasPrefix(line, "{") {
			continue
		}
		d := json.NewDecoder(strings.NewReader(line))
		name := ""
		for token, err := d.Token(); err == nil; token, err = d.Token() {
			s, ok := token.(string)
			if ok && (name == "content" || name == "text" || name == "delta") {
				texts, name = append(texts, s), ""
			} else if name = ""; ok {
				name = s
			}
		}
	}
	return texts
}

// What is no content of an answer, or has another place in it, is found, too, or stays.
func TestOtherPlacesOfWhatAProviderSaid(t *testing.T) {
	said := asciiJSON(saidText)
	clean := strings.Replace(said, keyOfTests, redacted, 1)
	for name, c := range map[string]struct {
		in    string
		stays bool
	}{
		"the finish chunk":     {in: finishChunkWith(`"content": `+said, "stop", realUsage)},
		"with a role":          {in: delta(`"role": "assistant", "content": ` + said)},
		"repeated":             {in: strings.Replace(delta(`"content": `+said), `"delta"`, `"text": `+said+`, "delta"`, 1)},
		"another choice":       {in: strings.Replace(delta(`"content": `+said), `"index": 0`, `"index": 1`, 1)},
		"twice":                {in: delta(`"content": ` + said + `, "content": ` + said)},
		"an escaped name":      {in: delta(`"c\u006fntent": ` + said)},
		"parts":                {in: delta(`"content": [{"type": "text", "text": ` + said + `}]`)},
		"CRLF":                 {in: strings.ReplaceAll(delta(`"content": `+said), "\n", "\r\n")},
		"several lines":        {in: strings.Replace(delta(`"content": `+said), `"choices"`, "\ndata: \"choices\"", 1)},
		"more fields":          {in: "id: 7\nretry: 5\n" + delta(`"content": `+said)},
		"reasoning":            {in: delta(`"reasoning_content": ` + said), stays: true},
		"arguments":            {in: delta(`"tool_calls": [{"index": 0, "function": {"arguments": ` + said + `}}]`), stays: true},
		"a chunk of its own":   {in: text("a\n\nProvider said: ") + text(keyOfTests), stays: true},
		"words in two chunks":  {in: text("a\n\nProvider ") + text("said: "+keyOfTests), stays: true},
		"behind reasoning":     {in: text("\n\n<think>x</think>Provider said: " + keyOfTests)},
		"white space behind":   {in: texts("\n\n<think>x</think>", " \n ", "  Provider said: "+keyOfTests)},
		"a tag in two chunks":  {in: texts("\n\n<think>x</thi", "nk> Provider said: "+keyOfTests)},
		"behind a marker line": {in: texts("a\n", "`💻 ls`\nProvider said: "+keyOfTests)},
		"behind a held line":   {in: texts("a\n`💻", " ls`", "\nProvider said: "+keyOfTests)},
		"in a line that holds": {in: texts("a\n", "Provider said: "+keyOfTests+"\n`💻")},
	} {
		for _, o := range allOptions() {
			in := role() + text("a ") + text("b") + c.in + stop()
			out := repairWith(in, o)
			if got := strings.Contains(strings.ReplaceAll(out, `\u006b`, "k"), keyOfTests); got != c.stays && !(o.Reasoning == ReasoningKeep && strings.Contains(c.in, "think")) {
				t.Errorf("%s: the key stays: %v, want %v:\n%s", name, got, c.stays, out)
			}
			if name == "repeated" || name == "CRLF" || name == "twice" || name == "parts" || name == "more fields" {
				if want := strings.ReplaceAll(c.in, said, clean); o.Imitations == "" && !strings.Contains(out, want) {
					t.Errorf("%s: other bytes have changed: %s", name, out)
				}
			}
			same(t, repairWith(out, o), out, name+": twice and once")
			for _, cut := range []cutter{oneByte, byFrame(in)} {
				again, _ := run(in, o, chatParams, cut, CauseEOF)
				same(t, again, out, name+": outputs of two cuts")
			}
			if t.Failed() {
				t.Fatalf("%s with %+v", name, o)
			}
		}
	}
	// What tools get and say stays, as does what the agent thinks, and what events are called.
	for _, event := range []string{
		named("response.output_item.done", `{"type":"response.output_item.done","item":{"type":"function_call_output","output":[{"type":"input_text","text":`+said+`}]},"sequence_number":9}`),
		named("response.output_item.done", `{"type":"response.output_item.done","item":{"type":"function_call","arguments":`+said+`},"sequence_number":9}`),
		named("response.function_call_arguments.delta", `{"type":"response.function_call_arguments.delta","delta":`+said+`,"sequence_number":9}`),
		named("response.reasoning_summary_text.done", `{"type":"response.reasoning_summary_text.done","text":`+said+`,"sequence_number":9}`),
		named("response.output_item.done", `{"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"type":"summary_text","text":`+said+`}]},"sequence_number":9}`),
	} {
		in := created(0, responseOfTests) + event
		out, _ := run(in, Options{}, Params{Responses: true}, inOne, CauseEOF)
		same(t, out[:len(in)], in, "bytes")
	}
	for _, event := range []string{
		named("response.content_part.done", `{"type":"response.content_part.done","part":{"type":"output_text","text":`+said+`},"sequence_number":9}`),
		named("response.output_item.added", `{"type":"response.output_item.added","item":{"type":"message","content":`+said+`},"sequence_number":9}`),
		`data: {"type":"response.output_text.delta","delta":` + said + `,"sequence_number":9}` + "\n\n",
		named("response.incomplete", `{"type":"response.incomplete","response":`+responseAnswer(said, someTokens, `{"type": "reasoning", "summary": []}, `)+`}`),
	} {
		in := created(0, responseOfTests) + event
		out, _ := run(in, Options{}, Params{Responses: true}, oneByte, CauseEOF)
		same(t, out[:len(in)-len(keyOfTests)+len(redacted)], strings.Replace(in, keyOfTests, redacted, 1), "bytes")
	}
}

// A turn of /v1/responses that failed says so (contract section 6).
func TestCompletedTurnsThatFailed(t *testing.T) {
	for text, fails := range map[string]bool{
		saidText:                          true,
		"\nProvider said: ":               true,
		"It says:\n  Provider said: boom": false,
		"Hello":                           false,
		"":                                false,
		"API call failed after 3 retries: HTTP 500: boom " + keyOfTests: true,
		" Error code: 401 - no\n":                    true,
		"It said: API call failed after 3 retries: ": false,
		"(No response generated)":                    true,
		"(empty)":                                    true,
		"⚠️ No reply: the model stayed silent":       true,
		"I reached the maximum iterations (90) but couldn't summarize. Error: boom": true,
		"I reached the station":                false,
		"⚠️ Provider authentication failed: x": true,
	} {
		for _, json := range []string{asciiJSON(text), rawJSON(text)} {
			for _, usage := range []string{noTokens, someTokens, `{"input_tokens": 0}`, `null`} {
				in := turnStream(json, usage)
				out, sum := run(in, Options{}, Params{Responses: true}, inOne, CauseEOF)
				last := out[strings.LastIndex(out, "event: "):]
				before, after := in[:strings.LastIndex(in, "event: ")], in[strings.LastIndex(in, "event: "):]
				if strings.Contains(text, "Provider said: ") {
					before, after = strings.ReplaceAll(before, keyOfTests, redacted), strings.ReplaceAll(after, keyOfTests, redacted)
				}
				same(t, strings.TrimSuffix(out, last), before, "bytes before the last event")
				if !fails || usage != noTokens {
					same(t, last, after, text+": last events")
					if sum.Code != "" {
						t.Errorf("%q: %+v", text, sum)
					}
					continue
				}
				message := Message(CodeCrashed)
				if text != "(No response generated)" {
					message = strings.Replace(strings.TrimSpace(text), keyOfTests, redacted, 1)
				}
				want := strings.Replace(after, "completed", "failed", 2)
				want = strings.Replace(want, `"status": "completed"`, `"status": "failed"`, 1)
				quoted := json[:0] + asciiJSON(message)
				if !strings.Contains(last, quoted) {
					quoted = rawJSON(message)
				}
				want = strings.Replace(want, noTokens, noTokens+`,"error":{"code":"agent_error","message":`+quoted+`}`, 1)
				same(t, last, strings.ReplaceAll(want, keyOfTests, redacted), text+": last events")
				if sum.Code != CodeAgentError || sum.ID != "resp_1" {
					t.Errorf("%q: %+v", text, sum)
				}
				for _, cut := range []cutter{oneByte, atRandom(3, 99)} {
					again, _ := run(in, Options{}, Params{Responses: true}, cut, CauseAborted)
					same(t, again, out, "outputs of two cuts")
				}
				again, _ := run(out, Options{}, Params{Responses: true}, inOne, CauseEOF)
				same(t, again, out, "outputs of a second sidecar")
				for framing, in := range reframed(in) {
					if out, _ := run(in, Options{}, Params{}, oneByte, CauseEOF); strings.Count(out, "response.completed") != 0 || strings.Count(out, "response.failed") != 2 {
						t.Errorf("in %s: %s", framing, out)
					}
				}
			}
			if t.Failed() {
				t.Fatalf("%q", text)
			}
		}
	}
}

// The same turn that is not streamed is an error with a status, unless tools have run.
func TestResponsesThatFailedAtOnce(t *testing.T) {
	said := asciiJSON(saidText)
	const empty = `{"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [], "usage": ` + noTokens + `}`
	for name, c := range map[string]struct{ in, message string }{
		"as Hermes writes it": {responseAnswer(said, noTokens, ""), strings.Replace(saidText, keyOfTests, redacted, 1)},
		"with reasoning":      {responseAnswer(said, noTokens, `{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, `), strings.Replace(saidText, keyOfTests, redacted, 1)},
		"an older text":       {responseAnswer(`"API call failed after 3 retries: boom"`, noTokens, ""), "API call failed after 3 retries: boom"},
		"no response":         {responseAnswer(`"(No response generated)"`, noTokens, ""), Message(CodeCrashed)},
		"nothing":             {responseAnswer(`" "`, noTokens, ""), Message(CodeCrashed)},
		"no output":           {empty, Message(CodeCrashed)},

		"real usage":          {responseAnswer(said, someTokens, ""), ""},
		"after a tool":        {responseAnswer(said, noTokens, `{"type": "function_call", "call_id": "c", "arguments": "{}"}, `), ""},
		"after a text":        {responseAnswer(said, noTokens, `{"type": "message", "content": [{"type": "output_text", "text": "a"}]}, `), ""},
		"nothing but thought": {strings.Replace(empty, "[]", `[{"type": "reasoning"}]`, 1), ""},
		"in progress":         {strings.Replace(empty, "completed", "in_progress", 1), ""},
		"another text":        {responseAnswer(`"(empty)"`, noTokens, ""), ""},
		"a text":              {responseAnswer(`"Hello"`, noTokens, ""), ""},
		"another object":      {strings.Replace(empty, `"response"`, `"list"`, 1), ""},
	} {
		a := RepairAnswer([]byte(c.in), &Options{}, nil)
		clean := strings.ReplaceAll(c.in, keyOfTests, redacted)
		if c.message == "" {
			same(t, string(a.Body), clean, name)
			if a.Code != "" || a.Changed != (clean != c.in) {
				t.Errorf("%s: %+v", name, a)
			}
			continue
		}
		want := `{"error":{"message":` + asciiJSON(c.message) + `,"type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}`
		if strings.HasPrefix(c.message, "the agent") {
			want = strings.Replace(want, asciiJSON(c.message), string(jsonspan.Quote(c.message)), 1)
		}
		same(t, string(a.Body), want, name)
		same(t, string(a.Kept), clean, name+": kept")
		if a.Code != CodeAgentIncomplete || a.ID != "resp_1" || !a.Changed {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// One that says that it failed loses all secrets, wherever they are.
	in := strings.Replace(responseAnswer(`"bad key `+keyOfTests+`"`, noTokens, ""), `"status": "completed"`, `"status": "failed", "error": {"message": "`+keyOfTests+`"}`, 1)
	a := RepairAnswer([]byte(in), &Options{}, nil)
	same(t, string(a.Body), strings.ReplaceAll(in, keyOfTests, redacted), "a response that failed")
}
