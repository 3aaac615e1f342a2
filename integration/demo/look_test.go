package demo

import (
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// screenshotVariable names the file that the README's picture of the page is
// written to; CONTRIBUTING.md has the command.
const screenshotVariable = "HERMES_SCREENSHOT"

// contrast lists the texts that are hard to read on their background: less
// than 4.5 to 1, which WCAG 2 asks for.
const contrast = `(() => {
	const channels = (color) => {
		const c = color.match(/[\d.]+/g).map(Number);
		return { rgb: c.slice(0, 3), alpha: c[3] ?? 1 };
	};
	const luminance = (rgb) => {
		const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = (node) => {
		for (; node; node = node.parentElement) {
			const { rgb, alpha } = channels(getComputedStyle(node).backgroundColor);
			if (alpha > 0) return rgb;
		}
		return [255, 255, 255];
	};
	const poor = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	while (texts.nextNode()) {
		const node = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest(".visually-hidden, .emoji")) continue;
		seen++;
		const [a, b] = [luminance(channels(getComputedStyle(node).color).rgb), luminance(behind(node))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) poor.push(ratio.toFixed(2) + ": " + texts.currentNode.data.trim());
	}
	return seen > 40 ? poor.join("\n") : "only " + seen + " texts";
})()`

// The page can be read in light and dark, and on a narrow screen nothing is
// wider than it.
func TestPageLooks(t *testing.T) {
	page := demoPage(t, "--speed", "4")
	for _, test := range []struct {
		name          string
		width, height int64
		features      []string
	}{
		{"light", 1280, 860, []string{"prefers-color-scheme: light"}},
		{"dark", 1280, 860, []string{"prefers-color-scheme: dark"}},
		{"narrow", 360, 740, []string{"prefers-color-scheme: light"}},
		{"narrow, dark", 360, 740, []string{"prefers-color-scheme: dark"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := browser.New(t, test.width, test.height, test.features...)
			b.Do(chromedp.Navigate(page))
			b.Wait(bothEnded)
			b.Picture(test.name)
			for _, name := range []string{"endless_crash", "think_tags", "kill"} {
				playRecording(b, name)
				b.Picture(test.name + " " + name)
				if poor := browser.Eval[string](b, contrast); poor != "" {
					t.Errorf("%s: hard to read:\n%s", name, poor)
				}
			}
			browser.Eval[any](b, `document.getElementById("drawer").open = true`)
			b.Wait(`document.querySelector("#frames li")`)
			b.Picture(test.name + " frames")
			if poor := browser.Eval[string](b, contrast); poor != "" {
				t.Errorf("the drawer is hard to read:\n%s", poor)
			}
			if over := browser.Eval[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("the page is %d pixels wider than the screen", over)
			}
			b.CheckQuiet(page, "ERR_INCOMPLETE_CHUNKED_ENCODING ("+page+"without/")
		})
	}
}

// Nothing moves by itself for a user who prefers reduced motion, neither at the
// beginning nor in a card that runs.
func TestPageIsCalm(t *testing.T) {
	b := browser.New(t, 1280, 860, "prefers-reduced-motion: reduce")
	page := demoPage(t, "--speed", "4")
	b.Do(chromedp.Navigate(page))
	b.Wait(`document.getElementById("status").innerText.includes("Ask both")`)
	if n := b.Count(".answer > *"); n != 0 {
		t.Errorf("%d pieces of an answer before a question", n)
	}
	playRecording(b, "endless_cards")
	if b.Count(".without .spinner") != 3 {
		t.Error("the cards do not run")
	}
	if n := browser.Eval[int](b, `document.getAnimations().length`); n != 0 {
		t.Errorf("%d animations", n)
	}
	b.CheckQuiet(page)
}

// The README's picture is what the page looks like, and not too large.
func TestPageScreenshot(t *testing.T) {
	const limit = 200 << 10
	file := os.Getenv(screenshotVariable)
	if file == "" {
		shot := harness.ReadFile(t, harness.Path("docs/demo-page.png"))
		if _, err := png.Decode(strings.NewReader(shot)); err != nil || len(shot) > limit {
			t.Errorf("%d bytes, %v", len(shot), err)
		}
		return
	}
	b := browser.New(t, 1180, 800, "prefers-color-scheme: light")
	b.Do(chromedp.Navigate(demoPage(t)))
	b.Wait(bothEnded)
	playRecording(b, "seq_tools")
	b.Must(os.WriteFile(file, b.Shoot(chromedp.FullScreenshot(100)), 0o644))
}
