package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
)

// chromiumVariable says, as "required", that the tests of the page must not be
// skipped for want of a Chromium.
const chromiumVariable = "HERMES_CHROMIUM"

// demoPage starts caddy hermes-demo with a page and returns its URL.
func demoPage(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"hermes-demo", "--page", "--page-addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = environment(t.TempDir())
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the demo's exit: %v", err)
		}
	})
	in := bufio.NewScanner(stdout)
	for in.Scan() {
		if m := regexp.MustCompile(`in a browser: (http://\S+/)$`).FindStringSubmatch(in.Text()); m != nil {
			return m[1]
		}
	}
	t.Fatal("the demo names no page")
	return ""
}

// A tab is a page in a browser of its own.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	console []string        // errors, warnings and exceptions
	hosts   map[string]bool // that were asked for something
}

// newTab starts a browser whose window is so large, with media features such
// as "prefers-color-scheme: dark".
func newTab(t testing.TB, width, height int64, features ...string) *tab {
	t.Helper()
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t, chromiumVariable, "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun,
	}
	for _, flag := range []string{
		"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
	} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)

	b := &tab{t: t, ctx: ctx, hosts: map[string]bool{}}
	var media []*emulation.MediaFeature
	for _, f := range features {
		name, value, _ := strings.Cut(f, ": ")
		media = append(media, &emulation.MediaFeature{Name: name, Value: value})
	}
	b.must(chromedp.Do(ctx)) // starts it, without a limit of time
	b.must(chromedp.Listen(ctx, b.hear))
	b.do(
		call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media}),
		chromedp.EmulateViewport(width, height),
	)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page's text:\n%s", eval[string](b, "document.body.innerText"))
		}
	})
	return b
}

// call is a command of the browser's protocol as an action.
func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cmd, params)
		return err
	})
}

// hear notes what the browser reports.
func (b *tab) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *log.EventEntryAdded:
		b.console = append(b.console, fmt.Sprintf("%s: %s (%s)", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		b.console = append(b.console, fmt.Sprintf("console.%s", ev.Type))
	case *runtime.EventExceptionThrown:
		b.console = append(b.console, "exception: "+ev.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err == nil {
			b.hosts[u.Host] = true
		}
	}
}

// do runs actions one after the other.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	b.must(chromedp.Do(ctx, actions...))
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates an expression of JavaScript; a promise is waited for.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Errorf("%s: %v", expression, err)
	}
	return v
}

// wait waits until a condition in JavaScript holds.
func (b *tab) wait(condition string) {
	b.t.Helper()
	ok := eval[bool](b, fmt.Sprintf(`new Promise((resolve) => {
		const until = Date.now() + %d;
		(function look() {
			if (%s) resolve(true);
			else if (Date.now() > until) resolve(false);
			else setTimeout(look, 20);
		})();
	})`, (patience-time.Second).Milliseconds(), condition))
	if !ok {
		b.t.Fatalf("it never was so: %s", condition)
	}
}

// text is the visible text of the first element that a selector names.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "(there is none)"`, selector))
}

// count is how many elements a selector names.
func (b *tab) count(selector string) int {
	b.t.Helper()
	return eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// click clicks on an element as a pointer does.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// checkQuiet fails when the console said anything but what is expected, or not
// that, and when another host than the page's was asked for something.
func (b *tab) checkQuiet(page string, expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(line, e) }) {
			b.t.Errorf("the console says: %s", line)
		}
	}
	for _, e := range expected {
		if !slices.ContainsFunc(b.console, func(line string) bool { return strings.Contains(line, e) }) {
			b.t.Errorf("the console does not say: %s", e)
		}
	}
	u, err := url.Parse(page)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.hosts[u.Host] {
		b.t.Errorf("no request to %s was seen", u.Host)
	}
	for host := range b.hosts {
		if host != u.Host {
			b.t.Errorf("a request to %q", host)
		}
	}
}
