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
