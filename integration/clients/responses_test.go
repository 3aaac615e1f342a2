package clients

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// responseFrames is the stream of a response, as Hermes 0.22 sends it.
var responseFrames = func() (all [][]string) {
	number := 0
	add := func(kind, members string) {
		all = append(all, []string{"event: response." + kind, fmt.Sprintf(`data: {"type": "response.%s", %s, "sequence_number": %d}`, kind, members, number)})
		number++
	}
	response := func(status, output string) string {
		return `"response": {"id": "resp_1", "object": "response", "status": "` + status + `", "created_at": 1795165131, "model": "hermes-agent", "output": [` + output + `]}`
	}
	const text = `{"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Hello world, all.", "annotations": []}]}`
	delta := func(s string) {
		add("output_text.delta", `"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": [], "delta": "`+s+`"`)
	}
	add("created", response("in_progress", ""))
	add("output_item.added", `"output_index": 0, "item": {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}`)
	delta("Hello")
	add("output_item.added", `"output_index": 1, "item": {"id": "fc_1", "type": "function_call", "status": "in_progress", "name": "terminal", "call_id": "call_1", "arguments": "{}"}`)
	add("output_item.done", `"output_index": 1, "item": {"id": "fc_1", "type": "function_call", "status": "completed", "name": "terminal", "call_id": "call_1", "arguments": "{}"}`)
	delta(" world,")
	all = append(all, []string{": keepalive"}, []string{"event: hermes.status", `data: {"kind": "lifecycle", "text": "\u23f3 Retrying"}`})
	delta(" all.")
	add("output_text.done", `"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": [], "text": "Hello world, all."`)
	add("output_item.done", `"output_index": 0, "item": `+text)
	add("completed", response("completed", text))
	return all
}()

// A responsesClient runs a program of a client that asks for responses.
type responsesClient struct {
	name, language, open string // how a program begins
	print, cancels       string // how it ends, and one that cancels
	run                  func(t *testing.T, program, url string) string
}

// responsesClients are those whose code is in docs/resume-programs.md.
var responsesClients = []responsesClient{
	{
		"openai-python", "python",
		"import sys, openai\nclient = openai.OpenAI(base_url=sys.argv[1], api_key='k')\nquestion = 'hi'\n",
		"\nprint(f'{text}, {tries_left} tries left')\n",
		`
stream = client.responses.create(model="hermes-agent", input=question, stream=True, background=True)
run = next(stream).response.id
for _ in range(2):
    response = client.responses.cancel(run)
    print(response.id, response.status, repr(response.output_text))
for event in stream:
    print(event.type)
`,
		func(t *testing.T, program, url string) string {
			return outputOf(t, pythonWith(t, "openai.txt", "-c", program, url))
		},
	},
	{
		"openai-node", "js",
		"import OpenAI from 'openai';\nconst client = new OpenAI({ baseURL: process.argv[2], apiKey: 'k' });\nconst question = 'hi';\n",
		"\nconsole.log(`${text}, ${triesLeft} tries left`);\n",
		`
const stream = (await client.responses.create({ model: 'hermes-agent', input: question, stream: true, background: true }))[Symbol.asyncIterator]();
const run = (await stream.next()).value.response.id;
for (let i = 0; i < 2; i++) {
  const response = await client.responses.cancel(run);
  console.log(response.id, response.status, ` + "`'${response.output_text ?? ''}'`" + `);
}
for (let { done, value } = await stream.next(); !done; { done, value } = await stream.next()) console.log(value.type);
`,
		func(t *testing.T, program, url string) string {
			modules, err := (&workshop{t: t}).installModules("node")
			if err != nil {
				harness.Missing(t, clientsVariable, err.Error())
			}
			file := besideModules(t, modules, "node/openai.mjs")
			harness.WriteFile(t, file, []byte(program))
			return outputOf(t, exec.Command("node", file, url))
		},
	},
}

// TestResumingResponses cuts the connections of programs that have the code of docs/resume-programs.md, after
// every event of the stream, as that comes, and after the last one.
func TestResumingResponses(t *testing.T) {
	for _, c := range responsesClients {
		t.Run(c.name, func(t *testing.T) {
			program := c.open + sample(t, c.language, "starting_after") + c.print
			events := 0
			var cuts []cut
			for _, f := range responseFrames {
				if strings.HasPrefix(f[0], ":") {
					continue // it comes with the next one
				}
				events++
				cuts = append(cuts, cut{behind: regexp.MustCompile(fmt.Sprintf(`/%d\n\n`, events))})
			}
			step := make([]chan struct{}, events+2) // closed with the connection of this number
			for i := range step {
				step[i] = make(chan struct{})
			}
			up := upstream.New(t, func(x *upstream.Exchange) {
				x.Events()
				at := 0
				for _, f := range responseFrames {
					if !strings.HasPrefix(f[0], ":") {
						at++
						if !x.Wait(step[at]) {
							return
						}
					}
					x.Frame(f...)
				}
				if x.Wait(step[events+1]) {
					x.End()
				}
			})
			side, _ := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
			relay := newCutter(t, side, cuts...)
			go func() {
				for n := range relay.asks {
					if n < len(step) {
						close(step[n])
					}
				}
			}()
			if out, want := c.run(t, program, relay.url+"/v1"), fmt.Sprintf("Hello world, all., %d tries left", 19-events); out != want {
				t.Errorf("it prints %q, want %q", out, want)
			}
			if n := len(up.Requests()); n != 1 {
				t.Errorf("the agent was asked %d times", n)
			}
		})
	}
}

// TestCancellingResponses ends the request of the agent.
func TestCancellingResponses(t *testing.T) {
	for _, c := range responsesClients {
		t.Run(c.name, func(t *testing.T) {
			left := make(chan struct{})
			up := upstream.New(t, func(x *upstream.Exchange) {
				x.Events()
				x.Frame(responseFrames[0]...)
				x.Silence()
				close(left)
			})
			side, _ := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
			out := c.run(t, c.open+c.cancels, side+"/v1")
			if out != "resp_1 cancelled ''\nresp_1 cancelled ''\nresponse.failed" {
				t.Errorf("it prints %q", out)
			}
			await(t, left)
			if n := len(up.Requests()); n != 1 {
				t.Errorf("the agent was asked %d times", n)
			}
		})
	}
}
