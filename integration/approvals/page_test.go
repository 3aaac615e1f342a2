package approvals

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// lab is a place whose page has a proxy in front, which sees what the browser sends, and sends another Host.
type lab struct {
	*place
	t     *testing.T
	front *httptest.Server
	asked int

	mu    sync.Mutex
	posts []http.Header // of the requests that were no GET
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{place: preparePlace(t, hermes.New(t, 0)), t: t}
	proxy := harness.ProxyTo(strings.TrimPrefix(l.page, "http://"))
	l.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			l.mu.Lock()
			l.posts = append(l.posts, r.Header.Clone())
			l.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(l.front.Close)
	l.start(t, []string{"approvals link " + l.front.URL + "/hermes/approve", onPage + "allow_always"})
	return l
}

// ask has a client of its own be asked about a command, and returns the URL of the page.
func (l *lab) ask(command string) string {
	l.t.Helper()
	l.asked++
	prompt := fmt.Sprint("go ", l.asked)
	l.On(prompt, asksOnce(command)...)
	return person{t: l.t, at: l.place, key: prompt}.asks(prompt).wait().url
}

// wantSent wants that the agent has got this answer to its last question.
func (l *lab) wantSent(choice string) {
	l.t.Helper()
	all := l.Questions()
	if got := all[len(all)-1].Choices; !slices.Equal(got, []string{choice}) {
		l.t.Errorf("sent %q, want %q", got, choice)
	}
}

// TestThePageWithTheKeyboard: each button can be reached and seen, and Enter sends it, with an
// origin and a referrer that the page takes.
func TestThePageWithTheKeyboard(t *testing.T) {
	l := newLab(t)
	for i, choice := range []string{"once", "session", "always", "deny"} {
		b := browser.New(t, 1280, 900)
		page := l.ask("rm -rf victim")
		b.Do(chromedp.Navigate(page))
		for range i + 1 {
			b.Do(chromedp.KeyEvent(kb.Tab))
		}
		focused := browser.Eval[string](b, `document.activeElement.value + " " + getComputedStyle(document.activeElement).outlineStyle + " " + getComputedStyle(document.activeElement).outlineWidth`)
		if focused != choice+" solid 3px" {
			t.Errorf("tab %d leads to %q, want %s", i+1, focused, choice)
		}
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Do(chromedp.WaitVisible("[role=status]"))
		l.wantSent(choice)
		if title := browser.Eval[string](b, "document.title"); !strings.HasPrefix(title, map[bool]string{true: "Denied", false: "Approved"}[choice == "deny"]) {
			t.Errorf("the title is %q", title)
		}
		if got := b.Text("[role=status]"); !strings.Contains(got, "run") {
			t.Errorf("it says %q", got)
		}
		b.Do(chromedp.Navigate(page))
		if got := b.Text("h1"); got != "Already answered" {
			t.Errorf("opened again it says %q", got)
		}
		b.CheckQuiet(page)
		h := l.posts[i]
		if h.Get("Origin") != l.front.URL || h.Get("Sec-Fetch-Site") != "same-origin" || h.Get("Referer") != page {
			t.Errorf("Chromium sends Origin %q, Sec-Fetch-Site %q, Referer %q", h.Get("Origin"), h.Get("Sec-Fetch-Site"), h.Get("Referer"))
		}
	}
	if len(l.posts) != 4 {
		t.Errorf("%d requests that are no GET", len(l.posts))
	}
}

// TestAForeignFormAnswersNothing, as Chromium sends it.
func TestAForeignFormAnswersNothing(t *testing.T) {
	l := newLab(t)
	b := browser.New(t, 1280, 900)
	page := l.ask("rm -rf victim")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method=post action=%q><button name=choice value=once>Win</button></form><iframe src=%q></iframe>`, page, page)
	}))
	t.Cleanup(evil.Close)
	b.Do(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)))
	if n := browser.Eval[int](b, `frames.length && (() => { try { return frames[0].document.body.innerText.length } catch { return 0 } })()`); n != 0 {
		t.Error("the page shows in a frame")
	}
	b.Click("button")
	b.Do(chromedp.WaitVisible("[role=status]"))
	if title := browser.Eval[string](b, "document.title"); !strings.HasPrefix(title, "Not sent") {
		t.Errorf("the title is %q", title)
	}
	if h := l.posts[0]; h.Get("Sec-Fetch-Site") != "cross-site" {
		t.Errorf("Chromium sends %v", h)
	}
	b.Do(chromedp.Navigate(page))
	b.Click("button[value=deny]")
	b.Do(chromedp.WaitVisible("[role=status]"))
	l.wantSent("deny") // and nothing before
}

// structure lists what a screen reader or a phone would miss on the page.
const structure = `(() => {
	const faults = [];
	const want = (ok, what) => { if (!ok) faults.push(what); };
	want(document.documentElement.lang === "en", "no language");
	want(document.title, "no title");
	want(document.querySelectorAll("h1").length === 1, "not one h1");
	want(document.querySelectorAll("main").length === 1, "not one main");
	want(document.querySelector("meta[name=viewport]"), "no viewport");
	want(!document.querySelector("script"), "a script");
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	want(new Set(ids).size === ids.length, "an id twice");
	for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
		for (const id of (e.getAttribute("aria-labelledby") || e.getAttribute("aria-describedby")).split(" "))
			want(document.getElementById(id)?.innerText, e.localName + " refers to " + id);
	for (const e of document.querySelectorAll("button")) {
		want(e.innerText.trim(), "a button without a name");
		const box = e.getBoundingClientRect();
		want(box.height >= 44 && box.width >= 44, "a small button: " + box.width + " x " + box.height);
	}
	for (const e of document.querySelectorAll("body *"))
		want(e.scrollWidth <= e.clientWidth + 1 || getComputedStyle(e).display === "inline", e.localName + " is cut");
	const levels = [...document.querySelectorAll("h1,h2,h3")].map((e) => +e.localName[1]);
	want(levels.every((l, i) => i === 0 ? l === 1 : l - levels[i - 1] <= 1), "levels of headings " + levels);
	return faults.join("\n");
})()`

// TestThePageLooks: in light and dark, on a narrow screen, each of its states can be read.
func TestThePageLooks(t *testing.T) {
	l := newLab(t)
	browser.Looks(t, func(t *testing.T, look string, b *browser.Tab) {
		backs := map[string]bool{}
		check := func(name string) {
			t.Helper()
			b.Picture(look + " " + name)
			if faults := browser.Eval[string](b, structure); faults != "" {
				t.Errorf("%s:\n%s", name, faults)
			}
			b.CheckLegible(name, 2, "button")
			backs[browser.Eval[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
		}
		page := ""
		for name, command := range map[string]string{
			"short":  "rm -rf victim",
			"long":   strings.Repeat("rm -rf /some/long/path/without/spaces/", 40) + "\n\tls",
			"word":   strings.Repeat("x", 500),
			"hidden": "rm \u202etxt.\x1b[8mexe\u200b \u05d0\u05d1\u05d2 1 \u05d3\nls\r",
			"huge":   strings.Repeat("y", 70<<10),
		} {
			page = l.ask(command)
			b.Do(chromedp.Navigate(page))
			check(name)
			if shows := b.Text("pre"); name == "hidden" && shows != "rm [U+202E]txt.[U+001B][8mexe[U+200B] \u05d0\u05d1\u05d2 1 \u05d3↵\nls[U+000D]" {
				t.Errorf("it shows %q", shows)
			}
			// Letters from right to left also stand in the order in which they are.
			if name == "hidden" && !browser.Eval[bool](b, `(() => {
				const text = [...document.querySelector("pre code").childNodes].find((n) => n.data?.includes("\u05d0"));
				const left = (i) => { const r = document.createRange(); r.setStart(text, i); r.setEnd(text, i + 1); return r.getBoundingClientRect().left; };
				const first = text.data.indexOf("\u05d0");
				return left(first) < left(first + 1) && left(first + 1) < left(first + 2);
			})()`) {
				t.Error("the browser changes the order of the command")
			}
		}
		b.Do(chromedp.Navigate(l.ask("rm -rf victim")))
		b.Click("button[value=once]")
		b.Do(chromedp.WaitVisible("[role=status]"))
		l.wantSent("once")
		check("approved")
		b.CheckQuiet(page)
		b.Do(chromedp.Navigate(l.front.URL + "/hermes/approve/x"))
		check("unknown")
		dark := strings.Contains(look, "dark")
		if want := map[bool]string{true: "rgb(22, 22, 22)", false: "rgb(255, 255, 255)"}[dark]; len(backs) != 1 || !backs[want] {
			t.Errorf("backgrounds %v", backs)
		}
	})
}
