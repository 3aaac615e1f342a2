// Package browser drives a page in a headless Chromium. Without one in the PATH a test is
// skipped, or fails if HERMES_CHROMIUM is "required".
package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// chromiumVariable is "required" where a Chromium must be there.
const chromiumVariable = "HERMES_CHROMIUM"

// A Tab is a page in a browser of its own.
type Tab struct {
	T   testing.TB // which fails; a subtest may take its place for a while
	ctx context.Context

	mu      sync.Mutex
	console []string        // errors, warnings and exceptions
	hosts   map[string]bool // that were asked for something
}

// New starts a browser with a window of that size and with media features, such as
// "prefers-color-scheme: dark".
func New(t testing.TB, width, height int64, features ...string) *Tab {
	t.Helper()
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(harness.Program(t, chromiumVariable, "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun,
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

	b := &Tab{T: t, ctx: ctx, hosts: map[string]bool{}}
	var media []*emulation.MediaFeature
	for _, f := range features {
		name, value, _ := strings.Cut(f, ": ")
		media = append(media, &emulation.MediaFeature{Name: name, Value: value})
	}
	b.Must(chromedp.Do(ctx)) // starts it, without a limit of time
	b.Must(chromedp.Listen(ctx, b.hear))
	b.Do(
		call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media}),
		chromedp.EmulateViewport(width, height),
	)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page's text:\n%s", Eval[string](b, "document.body.innerText"))
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

// hear records what the browser reports.
func (b *Tab) hear(ev any) {
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

// limited returns the context of an action.
func (b *Tab) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, harness.Patience)
}

// Do runs actions one after the other.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	b.Must(chromedp.Do(ctx, actions...))
}

// Must fails the test if there is an error.
func (b *Tab) Must(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}

// Eval evaluates an expression of JavaScript and waits for a promise.
func Eval[T any](b *Tab, expression string) T {
	b.T.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.T.Errorf("%s: %v", expression, err)
	}
	return v
}

// Wait waits until a condition in JavaScript holds.
func (b *Tab) Wait(condition string) {
	b.T.Helper()
	ok := Eval[bool](b, fmt.Sprintf(`new Promise((resolve) => {
		const until = Date.now() + %d;
		(function look() {
			if (%s) resolve(true);
			else if (Date.now() > until) resolve(false);
			else setTimeout(look, 20);
		})();
	})`, (harness.Patience-time.Second).Milliseconds(), condition))
	if !ok {
		b.T.Fatalf("it never was so: %s", condition)
	}
}

// Text returns the visible text of the first element that matches a selector.
func (b *Tab) Text(selector string) string {
	b.T.Helper()
	return Eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "(there is none)"`, selector))
}

// Count returns how many elements match a selector.
func (b *Tab) Count(selector string) int {
	b.T.Helper()
	return Eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// Click clicks on an element as a pointer does.
func (b *Tab) Click(selector string) {
	b.T.Helper()
	b.Do(chromedp.Click(chromedp.CSS(selector)))
}

// Submit clicks on a button of a form, and returns when the page that answers is there, with its
// status.
func (b *Tab) Submit(selector string) (status int64) {
	b.T.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	res, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
	b.Must(err)
	return res.Status
}

// Follow clicks on a link that opens in a tab of its own, and returns that.
func (b *Tab) Follow(selector string) *Tab {
	b.T.Helper()
	opened := chromedp.WaitNewTarget(b.ctx, func(*target.Info) bool { return true })
	b.Click(selector)
	var id target.ID
	select {
	case id = <-opened:
	case <-time.After(harness.Patience):
		b.T.Fatalf("%s opens no tab", selector)
	}
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithTargetID(id))
	b.T.Cleanup(stop)
	n := &Tab{T: b.T, ctx: ctx, hosts: map[string]bool{}}
	n.Must(chromedp.Listen(ctx, n.hear))
	n.Do(call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}))
	n.Wait(`document.readyState === "complete" && location.protocol !== "about:"`)
	return n
}

// Hide opens another tab in front of the page, and returns what closes it again. The page
// has noticed when they return.
func (b *Tab) Hide() (show func()) {
	b.T.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	front, err := chromedp.CallBrowser(ctx, target.CreateTarget, target.CreateTargetParams{URL: "about:blank"})
	b.Must(err)
	b.Wait("document.hidden")
	return func() {
		b.T.Helper()
		ctx, cancel := b.limited()
		defer cancel()
		_, err := chromedp.CallBrowser(ctx, target.CloseTarget, target.CloseTargetParams(front))
		b.Must(err)
		b.Do(call(page.BringToFront, cdp.Empty{}))
		b.Wait("!document.hidden")
	}
}

// CheckQuiet wants the console to say what is expected and nothing else, and no other host
// than the page's to be asked for anything.
func (b *Tab) CheckQuiet(page string, expected ...string) {
	b.T.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(line, e) }) {
			b.T.Errorf("the console says: %s", line)
		}
	}
	for _, e := range expected {
		if !slices.ContainsFunc(b.console, func(line string) bool { return strings.Contains(line, e) }) {
			b.T.Errorf("the console does not say: %s", e)
		}
	}
	u, err := url.Parse(page)
	if err != nil {
		b.T.Fatal(err)
	}
	if !b.hosts[u.Host] {
		b.T.Errorf("no request to %s was seen", u.Host)
	}
	for host := range b.hosts {
		if host != u.Host {
			b.T.Errorf("a request to %q", host)
		}
	}
}

// Picture writes a picture of the whole page to the directory that HERMES_PICTURES names, if
// any.
func (b *Tab) Picture(name string) {
	b.T.Helper()
	dir := os.Getenv("HERMES_PICTURES")
	if dir == "" {
		return
	}
	shot := b.Shoot(chromedp.FullScreenshot(100))
	harness.WriteFile(b.T, fmt.Sprintf("%s/%s.png", dir, strings.ReplaceAll(name, " ", "-")), shot)
}

// Shoot takes a picture.
func (b *Tab) Shoot(shot chromedp.Action[[]byte]) []byte {
	b.T.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	out, err := chromedp.Run(ctx, shot)
	b.Must(err)
	return out
}
