package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// resumeDoc shows clients' code.
var resumeDoc = harness.Path("docs/resume.md")

// sample returns the only code in a language that has a text in it, of docs/resume.md.
func sample(t testing.TB, language, has string) string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(harness.ReadFile(t, resumeDoc), -1) {
		if strings.Contains(m[1], has) {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d pieces of %s in %s have %q", len(found), language, resumeDoc, has)
	}
	return found[0]
}

// TestResumingOpenAIPython cuts the connections of a program that has the code of
// docs/resume.md. Only the SDK itself sends a request again whose answer has not begun.
func TestResumingOpenAIPython(t *testing.T) {
	const keyed = `extra_headers={"Idempotency-Key": key},`
	for _, test := range []struct {
		name, header string
		cuts         []cut // behind the one in front of the answer
		out          string
		asked        int
	}{
		{"with the key", keyed, []cut{
			{behind: regexp.MustCompile("wor")},
			{behind: regexp.MustCompile(`world.*\nid: .*/3\n\n`), reset: true},
		}, "Hello world, tries left: 2", 1},
		{"without it", "", nil, "Hello world, tries left: 4", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			site, err := (&workshop{t: t}).installPython("openai.txt")
			if err != nil {
				harness.Missing(t, clientsVariable, err.Error())
			}
			asked := make(chan struct{}, 10)
			second, last := make(chan struct{}), make(chan struct{})
			up := upstream.New(t, func(x *upstream.Exchange) {
				asked <- struct{}{}
				if !x.Wait(second) {
					return
				}
				x.Begin("Hello", " world")
				if x.Wait(last) {
					x.Finish()
				}
			})
			side, _ := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
			c := newCutter(t, side, append([]cut{{when: func() { await(t, asked) }}}, test.cuts...)...)
			connections := len(test.cuts) + 2
			go func() {
				for n := range c.asks {
					if n == 2 {
						close(second)
					}
					if n == connections {
						close(last)
						return
					}
				}
			}()
			code := sample(t, "python", "extra_headers")
			if !strings.Contains(code, keyed) {
				t.Fatalf("it sends no key:\n%s", code)
			}
			program := "import sys, uuid, openai\n" +
				"client = openai.OpenAI(base_url=sys.argv[1], api_key='k')\n" +
				"messages = [{'role': 'user', 'content': 'hi'}]\n" +
				strings.Replace(code, keyed, test.header, 1) +
				"print(f'{text}, tries left: {tries_left}')\n"
			out := outputOf(t, exec.Command("python3", "-s", "-c", program, c.url+"/v1"),
				"PYTHONPATH="+site, "PYTHONPYCACHEPREFIX="+filepath.Join(site, ".pycache"))
			if out != test.out {
				t.Errorf("it prints %q, want %q", out, test.out)
			}
			if n := len(up.Requests()); n != test.asked {
				t.Errorf("the agent was asked %d times, want %d", n, test.asked)
			}
		})
	}
}

// Programs that print the data of each event that their library hands to them.
const (
	openAIReads = `import sys, openai
client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='k', max_retries=0)
stream = client.chat.completions.create(model='hermes-agent', stream=True, messages=[{'role': 'user', 'content': 'hi'}],
    extra_headers={'Idempotency-Key': 'k'})
for chunk in stream:
    print(chunk.choices[0].delta.content or chunk.choices[0].finish_reason)
`
	httpxReads = `import sys, json, httpx, httpx_sse
question = json.dumps({'model': 'hermes-agent', 'stream': True, 'messages': []})
headers = {'Authorization': 'Bearer k', 'Content-Type': 'application/json', 'Idempotency-Key': 'httpx'}
def read(method, path, **more):
    ids = []
    with httpx_sse.connect_sse(httpx.Client(timeout=None), method, sys.argv[1] + path, **more) as source:
        source.response.raise_for_status()
        stream = source.response.headers['X-Hermes-Stream']
        for event in source.iter_sse():
            ids.append(event.id)
            if event.data != '[DONE]':
                choice = json.loads(event.data)['choices'][0]
                yield choice['delta'].get('content') or choice['finish_reason']
    first = int(ids[0].split('/')[1])
    assert ids == [f'{stream}/{first + n}' for n in range(len(ids))], ids
    read.stream, read.events = stream, len(ids)
shown = list(read('POST', '/v1/chat/completions', content=question, headers=headers))
for n in range(read.events) if sys.argv[2] == 'any' else [0]:
    rest = list(read('GET', f'/v1/chat/completions/{read.stream}', headers={'Authorization': 'Bearer k', 'Last-Event-ID': f'{read.stream}/{n}'}))
    assert rest == shown[n:], (n, rest)
for text in shown: print(text)
`
)

// TestReadersOfEveryBlankLine has the libraries read a stream which take each blank line for
// an event as soon as they know an id: openai-python and httpx-sse.
func TestReadersOfEveryBlankLine(t *testing.T) {
	for name, c := range map[string]struct{ lock, program string }{
		"openai-python":        {"openai.txt", openAIReads},
		"an old openai-python": {"openai-old.txt", openAIReads},
		"httpx-sse":            {"httpx-sse.txt", httpxReads},
	} {
		t.Run(name, func(t *testing.T) {
			site, err := (&workshop{t: t}).installPython(c.lock)
			if err != nil {
				harness.Missing(t, clientsVariable, err.Error())
			}
			const noisy = "hermes {\n\t\tkeepalive 1ms\n\t\tkeepalive_form comment\n\t}"
			for _, at := range []struct{ name, end, directives, positions string }{
				{"LF", "\n", "hermes_resume", "any"},
				{"CRLF", "\r\n", "hermes_resume", "any"},
				{"CR", "\r", "hermes_resume", "any"},
				{"hermes behind", "\n", "hermes_resume\n\t" + noisy, "any"},
				// It would take the rest of an answer for a whole one.
				{"hermes in front", "\n", "route {\n\t" + noisy + "\n\thermes_resume", "the beginning"},
			} {
				t.Run(at.name, func(t *testing.T) {
					up := upstream.New(t, func(x *upstream.Exchange) {
						x.Events()
						for _, s := range []string{
							": keepalive\n\n", hermes.Delta("role", "assistant") + "\n\n", "\n\n\n", hermes.Delta("content", "Hello") + "\n\n",
							": keepalive\n\n: keepalive\n\n", "retry: 100\n\n", "id: 7\n\n", "event: ping\n\n", "id: 8\n" + hermes.Delta("content", " world") + "\n\n",
							": keepalive\n\n", hermes.Finish("stop", 5) + "\n\n", ": keepalive\n\n", "data: [DONE]\n\n", ": closed\n\n",
						} {
							x.Chunk([]byte(strings.ReplaceAll(s, "\n", at.end)))
						}
						x.End()
					})
					text := at.directives + "\n\treverse_proxy " + up.Addr
					if strings.HasPrefix(text, "route") {
						text += "\n}"
					}
					side, _ := sidecar.ServeCaddyfile(t, text)
					out := outputOf(t, exec.Command("python3", "-s", "-c", c.program, side, at.positions),
						"PYTHONPATH="+site, "PYTHONPYCACHEPREFIX="+filepath.Join(site, ".pycache"))
					if out != "None\nHello\n world\nstop" {
						t.Errorf("it prints %q", out)
					}
					if n := len(up.Requests()); n != 1 {
						t.Errorf("the agent was asked %d times", n)
					}
				})
			}
		})
	}
}

// outputOf runs a client and returns what it prints.
func outputOf(t *testing.T, cmd *exec.Cmd, env ...string) string {
	t.Helper()
	cmd.Env = append(append(os.Environ(), "NO_PROXY=127.0.0.1"), env...)
	ctx, stop := context.WithTimeout(context.Background(), harness.Patience)
	defer stop()
	context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	var out, bad strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), bad.String())
	}
	return strings.TrimSpace(out.String())
}
