package clients

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// resumeDoc shows clients' code.
var resumeDoc = harness.Path("docs/resume-programs.md")

// sample returns the only code in a language that has a text in it, of docs/resume-programs.md.
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
// docs/resume-programs.md. The SDK itself sends a request again whose answer has not begun, and joins, with
// a key or none.
func TestResumingOpenAIPython(t *testing.T) {
	const keyed = `extra_headers={"Idempotency-Key": key},`
	for _, test := range []struct {
		name, header string
		cuts         []cut // after the one in front of the answer
		out          string
		asked        int
	}{
		{"with the key", keyed, []cut{
			{behind: regexp.MustCompile("wor")},
			{behind: regexp.MustCompile(`world.*\nid: .*/3\n\n`), reset: true},
		}, "Hello world, tries left: 2", 1},
		{"without it", "", []cut{{behind: regexp.MustCompile("wor")}}, "Hello world, tries left: 3", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
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
			if out := outputOf(t, pythonWith(t, "openai.txt", "-c", program, c.url+"/v1")); out != test.out {
				t.Errorf("it prints %q, want %q", out, test.out)
			}
			if n := len(up.Requests()); n != test.asked {
				t.Errorf("the agent was asked %d times, want %d", n, test.asked)
			}
		})
	}
}

// TestReadersOfEveryBlankLine has the libraries read a stream which take each blank line for
// an event as soon as they know an id: openai-python and httpx-sse.
func TestReadersOfEveryBlankLine(t *testing.T) {
	for name, c := range map[string]struct{ lock, program string }{
		"openai-python":        {"openai.txt", "openai_reads.py"},
		"an old openai-python": {"openai-old.txt", "openai_reads.py"},
		"httpx-sse":            {"httpx-sse.txt", "httpx_reads.py"},
	} {
		t.Run(name, func(t *testing.T) {
			const noisy = "hermes {\n\t\tkeepalive 1ms\n\t\tkeepalive_form comment\n\t}"
			for _, at := range []struct{ name, end, directives string }{
				{"LF", "\n", "hermes_resume"},
				{"CRLF", "\r\n", "hermes_resume"},
				{"CR", "\r", "hermes_resume"},
				{"hermes behind", "\n", "hermes_resume\n\t" + noisy},
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
					side, _ := sidecar.ServeCaddyfile(t, at.directives+"\n\treverse_proxy "+up.Addr)
					if out := outputOf(t, pythonWith(t, c.lock, filepath.Join("python", c.program), side)); out != "None\nHello\n world\nstop" {
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

// A pageLab is a page that runs a sample, from the same sidecar as its answers.
type pageLab struct {
	*browser.Tab
	*cutter
	up *upstream.Server
}

// newPageLab opens a page with the code in it.
func newPageLab(t *testing.T, code string, play upstream.Script, cuts ...cut) *pageLab {
	t.Helper()
	modules, err := (&workshop{t: t}).installModules("node")
	if err != nil {
		harness.Missing(t, clientsVariable, err.Error())
	}
	root := t.TempDir()
	for _, name := range []string{"page.html", "page.js"} {
		harness.WriteFile(t, filepath.Join(root, name), []byte(harness.ReadFile(t, filepath.Join("node", name))))
	}
	harness.WriteFile(t, filepath.Join(root, "sample.js"), []byte(code))
	if err := os.Symlink(filepath.Join(modules, "@microsoft/fetch-event-source/lib/esm"), filepath.Join(root, "fetch-event-source")); err != nil {
		t.Fatal(err)
	}
	b := browser.New(t, 800, 600)
	up := upstream.New(t, play)
	// A module of fetch-event-source names another without its suffix. A connection that
	// brings a file ends, so that each POST has one of its own.
	side, _ := sidecar.ServeCaddyfile(t, "handle /v1/* {\nhermes_resume\nhermes\nreverse_proxy "+up.Addr+"\n}\n"+
		"handle {\nroot "+root+"\ntry_files {path} {path}.js\nheader Connection close\nfile_server\n}")
	c := newCutter(t, side, cuts...)
	b.Do(chromedp.Navigate(c.url + "/page.html"))
	return &pageLab{b, c, up}
}

// check waits for the end, and wants that the page has shown the stream, each
// event once but those with a name that it does not listen to, and that the agent was asked once.
func (l *pageLab) check(text string, unheard ...string) {
	l.T.Helper()
	l.Wait("finished || failure")
	if failure := browser.Eval[string](l.Tab, "failure"); failure != "" {
		l.T.Fatalf("it ends with %s", failure)
	}
	if got := l.Text("#text"); got != text {
		l.T.Errorf("the page shows %q, want %q", got, text)
	}
	id := browser.Eval[string](l.Tab, "stream")
	var want []string
	name := ""
	for line := range strings.Lines(client.New(l.T, l.url).Get("/v1/chat/completions/" + id)) {
		if line == "\n" {
			name = ""
		} else if after, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(after)
		}
		if data, ok := strings.CutPrefix(line, "data: {"); ok && !slices.Contains(unheard, name) {
			want = append(want, browser.Eval[string](l.Tab, "JSON.stringify({"+data+")"))
		}
	}
	if got := browser.Eval[[]string](l.Tab, "shown"); !slices.Equal(got, want) {
		l.T.Errorf("the page was given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(l.up.Requests()); n != 1 {
		l.T.Errorf("the agent was asked %d times", n)
	}
}

// ended is what a page runs after a sample that waits for the end.
const ended = "\nfinished = true;\n"

// TestResumingPage cuts the connections of a page that runs the code of docs/resume-programs.md in a
// real browser, wherever it matters.
func TestResumingPage(t *testing.T) {
	var l *pageLab
	loaded, asked := make(chan struct{}), make(chan struct{})
	behind := func(text string, reset bool) cut {
		return cut{behind: regexp.MustCompile(regexp.QuoteMeta(text)), reset: reset, when: func() {
			await(t, loaded)
			l.Wait(fmt.Sprintf("received.endsWith(%q)", text))
		}}
	}
	cuts := []cut{
		{when: func() { await(t, asked) }},       // in front of the answer
		{behind: regexp.MustCompile("\r\n\r\n")}, // after its header
		behind("wor", false),                     // in an event
		behind("/3\n", false),                    // after its id, before its end
		behind("/4\n\n", true),                   // after an event
		behind(": a comment\n", true),            // after a comment
		behind("[DONE]\n", false),                // in the last one
		behind("/10\n\n", false),                 // after that, before the end
	}
	post := make([]chan struct{}, len(cuts)+2) // closed with the connection of this number
	for i := range post {
		post[i] = make(chan struct{})
	}
	first := sync.OnceFunc(func() { close(asked) })
	play := func(x *upstream.Exchange) {
		first()
		x.Wait(post[2])
		x.Begin()
		x.Wait(post[3])
		x.Frame(hermes.Delta("content", "Hello"))
		x.Frame(hermes.Delta("content", " world, "))
		x.Wait(post[5])
		x.Frame(hermes.Delta("content", "Grüße 😀"))
		x.Wait(post[6])
		x.Frame(": a comment")
		x.Wait(post[7])
		x.Frame(hermes.Running("terminal", "call_1")...)
		x.Frame(hermes.Completed("terminal", "call_1")...)
		x.Frame(hermes.Delta("content", "."))
		x.Finish()
	}
	l = newPageLab(t, sample(t, "js", "fetchEventSource")+ended, play, cuts...)
	close(loaded)
	for range len(cuts) + 1 {
		close(post[await(t, l.asks)])
	}
	l.check("Hello world, Grüße 😀.")
}

// TestResumingPageInBackground has another tab in front of the page. It stays connected, and
// reconnects there; with the default of fetch-event-source it does when it is back.
func TestResumingPageInBackground(t *testing.T) {
	code := sample(t, "js", "fetchEventSource") + ended
	t.Run("openWhenHidden", func(t *testing.T) {
		hidden := make(chan struct{})
		l := newPageLab(t, code, func(x *upstream.Exchange) {
			x.Begin("Hello")
			x.Wait(hidden)
			x.Frame(hermes.Delta("content", " world"))
			x.Finish()
		}, cut{behind: regexp.MustCompile("/2\n\n"), when: func() { await(t, hidden) }})
		l.Wait("text.textContent === 'Hello'")
		show := l.Hide()
		close(hidden)
		l.check("Hello world")
		show()
	})
	t.Run("by default", func(t *testing.T) {
		left, over := make(chan struct{}), make(chan struct{})
		l := newPageLab(t, strings.Replace(code, "openWhenHidden: true", "openWhenHidden: false", 1), func(x *upstream.Exchange) {
			x.Begin("Hello")
			x.Wait(left)
			x.Frame(hermes.Delta("content", " world"))
			x.Finish()
			close(over)
		})
		l.Wait("text.textContent === 'Hello'")
		show := l.Hide()
		await(t, l.left)
		close(left)
		await(t, over)
		if got := browser.Eval[string](l.Tab, "text.textContent"); got != "Hello" {
			t.Errorf("the page shows %q while it is hidden", got)
		}
		show()
		l.check("Hello world")
	})
}

// TestResumingPageOfNothing has another client end the stream while the page has no connection. The
// page does not try for ever, and no agent is asked again.
func TestResumingPageOfNothing(t *testing.T) {
	var l *pageLab
	loaded := make(chan struct{})
	l = newPageLab(t, sample(t, "js", "fetchEventSource")+ended, func(x *upstream.Exchange) {
		x.Begin("Hello")
		x.Silence()
	}, cut{behind: regexp.MustCompile("/2\n\n"), when: func() {
		await(t, loaded)
		l.Wait("text.textContent === 'Hello'")
		path := l.url + "/v1/chat/completions/" + browser.Eval[string](l.Tab, "stream")
		if status := browser.Eval[int](l.Tab, fmt.Sprintf("real(%q, { method: 'DELETE' }).then((r) => r.status)", path)); status != http.StatusNoContent {
			t.Errorf("DELETE: %d", status)
		}
	}})
	close(loaded)
	l.Wait("finished || failure")
	if failure := browser.Eval[string](l.Tab, "failure"); !strings.Contains(failure, `"status":404`) {
		t.Errorf("it ends with %q", failure)
	}
	if n := len(l.up.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// TestResumingEventSource has the EventSource of a browser continue what the page has begun
// and left.
func TestResumingEventSource(t *testing.T) {
	var ask [5]chan struct{} // closed with the connection of this number
	for i := range ask {
		ask[i] = make(chan struct{})
	}
	over := "\nsource.addEventListener('message', ({ data }) => { finished = data === '[DONE]'; });\n"
	l := newPageLab(t, sample(t, "js", "new EventSource")+over, func(x *upstream.Exchange) {
		x.Begin("Hello")
		x.Wait(ask[2])
		x.Frame(hermes.Running("terminal", "call_1")...)
		x.Wait(ask[3])
		x.Frame(hermes.Completed("terminal", "call_1")...)
		x.Frame(hermes.Delta("content", " world"))
		x.Wait(ask[4])
		x.Finish()
	}, cut{behind: regexp.MustCompile("nothing")}, // the page leaves
		cut{behind: regexp.MustCompile("/3\n")},
		cut{behind: regexp.MustCompile("/5\n\n"), reset: true})
	for range 4 {
		close(ask[await(t, l.asks)])
	}
	l.check("Hello world", "hermes.card")
}

// A cut is where a connection ends.
type cut struct {
	behind *regexp.Regexp // of what the client is sent; nil if it is sent nothing
	when   func()         // returns when it is time; nil if it is at once
	reset  bool           // by RST; what the client has not read by then may be lost to it
}

// A cutter forwards connections to a sidecar. The first that begins with a request below
// /v1/ has the first cut, and so on, and those after the last one stay.
type cutter struct {
	url  string
	asks chan int      // how many such connections there are, with each
	left chan struct{} // gets a value for each that the client closes

	mu   sync.Mutex
	n    int
	cuts []cut
}

// newCutter starts a cutter in front of a base URL. It ends with the test.
func newCutter(t testing.TB, base string, cuts ...cut) *cutter {
	t.Helper()
	c := &cutter{asks: make(chan int, 100), left: make(chan struct{}, 100), cuts: cuts}
	c.url = relay(t, base, c.forward)
	return c
}

// next returns the cut of a connection, nil if it stays.
func (c *cutter) next() *cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.asks <- c.n
	if c.n > len(c.cuts) {
		return nil
	}
	return &c.cuts[c.n-1]
}

// forward forwards a connection until either side closes it, or to its cut.
func (c *cutter) forward(down *net.TCPConn, dial func() (net.Conn, error)) {
	in := bufio.NewReader(down)
	line, err := in.Peek(len("POST /v1/"))
	if err != nil {
		return
	}
	asks := strings.Contains(string(line), " /v1/")
	up, err := dial()
	if err != nil {
		return
	}
	defer up.Close()
	var end *cut
	if asks {
		end = c.next()
	}
	go func() {
		_, err := io.Copy(up, in)
		up.Close()
		if err == nil && asks {
			c.left <- struct{}{}
		}
	}()
	if end == nil {
		_, _ = io.Copy(down, up)
		return
	}
	if end.behind != nil && !copyTo(down, up, end.behind) {
		return
	}
	if end.when != nil {
		end.when()
	}
	if end.reset {
		_ = down.SetLinger(0)
	}
}

// copyTo copies to the end of the first match of the pattern, and returns false if there is
// none.
func copyTo(down io.Writer, up io.Reader, pattern *regexp.Regexp) bool {
	var seen []byte
	sent := 0
	for b := make([]byte, 4096); ; {
		n, err := up.Read(b)
		seen = append(seen, b[:n]...)
		to := len(seen)
		match := pattern.FindIndex(seen)
		if match != nil {
			to = match[1]
		}
		if _, werr := down.Write(seen[sent:to]); match != nil || err != nil || werr != nil {
			return match != nil
		}
		sent = to
	}
}

// await returns the next value of a channel. If none comes it fails the test.
func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(harness.Patience):
		t.Fatal("what the test waits for does not come")
		panic("unreachable")
	}
}
