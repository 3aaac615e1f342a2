package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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

// check waits for the end, and wants that the page has shown what is in the stream, each
// event once, and that the agent was asked once.
func (l *pageLab) check(text string) {
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
	for line := range strings.Lines(client.New(l.T, l.url).Get("/v1/chat/completions/" + id)) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
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

// ended is what a page runs behind a sample that waits for the end.
const ended = "\nfinished = true;\n"

// TestResumingPage cuts the connections of a page that runs the code of docs/resume.md in a
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
		{behind: regexp.MustCompile("\r\n\r\n")}, // behind its header
		behind("wor", false),                     // in an event
		behind("/3\n", false),                    // behind its id, in front of its end
		behind("/4\n\n", true),                   // behind an event
		behind(": keepalive\n", true),            // behind a comment
		behind("[DONE]\n", false),                // in the last one
		behind("/9\n\n", false),                  // behind that, in front of the end
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
		x.Frame(": keepalive")
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

// TestResumingPageOfNothing has somebody end the stream while the page has no connection. The
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
	l.check("Hello world")
}
