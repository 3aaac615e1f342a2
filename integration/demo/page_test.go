// Package demo tests the page of hermes-demo in a headless Chromium.
//
// HERMES_SCREENSHOT names a file for the picture of docs/demo.md, and HERMES_PICTURES a directory
// for pictures of all that the page can look like.
package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// demoPage starts caddy hermes-demo with a page and returns its URL.
func demoPage(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(sidecar.BuildOf(t, "demo", harness.RaceEnabled), append([]string{"hermes-demo", "--page", "--page-addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = sidecar.Environment(t.TempDir())
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

// openPage opens the page, which plays the first recording by itself, and
// returns when it has been played.
func openPage(t *testing.T, args ...string) (*browser.Tab, string) {
	t.Helper()
	b := browser.New(t, 1280, 900)
	page := demoPage(t, args...)
	b.Do(chromedp.Navigate(page))
	b.Wait(bothEnded)
	return b, page
}

// bothEnded is true once both answers are there.
const bothEnded = `["without", "with"].every((side) =>
	document.querySelector("#" + side + "-verdict li:nth-child(3)") &&
	document.getElementById(side + "-answer").getAttribute("aria-busy") === "false")`

// playRecording chooses a recording with the pointer, which plays it.
func playRecording(b *browser.Tab, name string) {
	b.T.Helper()
	b.Click(`input[value="` + name + `"]`)
	b.Wait(`document.querySelector("#with-verdict").innerText.includes("Streaming")`)
	b.Wait(bothEnded)
}

// verdict are the three facts of a side, and whether each is good.
func verdict(b *browser.Tab, side string) string {
	b.T.Helper()
	return browser.Eval[string](b, `[...document.querySelectorAll("#`+side+`-verdict li")].map((li) => li.className + ": " + li.lastChild.innerText.replace(/\s+/g, " ")).join("\n")`)
}

// The facts of a side.
const (
	clean    = "good: Good: Clean text"
	stops    = "good: Good: Ends in “stop”"
	noText   = "neutral: No text"
	noTools  = "neutral: No tools"
	liesStop = "bad: Bad: The agent crashed, and it says “stop”"
	crashed  = "good: Good: Ends in an error that says why: agent_crashed"
)

// Each recording shows the fault on the left and its repair on the right.
func TestPageShowsBothSides(t *testing.T) {
	b, page := openPage(t, "--speed", "2")
	for _, test := range []struct {
		name                    string   // "" for the one that plays by itself
		without, with           []string // the facts
		leaks, cards            int      // on the left: markers in the text, and cards
		completed, interrupted  int      // cards on the right
		left, right, notOnRight string   // in the text
	}{
		{without: []string{clean, "bad: Bad: No tool card, though 3 tools ran", stops}, with: []string{clean, "good: Good: 3 tools, all completed", stops}, completed: 3},
		{name: "approval", without: []string{clean, "bad: Bad: No tool card, though 1 tool ran", stops}, with: []string{clean, "good: Good: 1 tool, completed", stops}, completed: 1},
		{
			name: "seq_tools", leaks: 4, completed: 4,
			without: []string{"bad: Bad: 4 tool markers in the text", "bad: Bad: No tool card, though 4 tools ran", stops},
			with:    []string{clean, "good: Good: 4 tools, all completed", stops},
			left:    "`📖 /etc/hostname`", right: "Reading the file now.", notOnRight: "`",
		},
		{name: "endless_cards", without: []string{clean, "bad: Bad: 3 of 3 cards spin forever", stops}, with: []string{clean, "good: Good: 3 tools, all completed", stops}, cards: 3, completed: 3},
		{
			name: "think_tags", without: []string{"bad: Bad: Thoughts in the text", noTools, stops}, with: []string{clean, noTools, stops}, leaks: 1,
			left: "<think>secret plan</think>", right: "Answer 42", notOnRight: "secret",
		},
		{name: "model_imitates", without: []string{"bad: Bad: 1 tool marker in the text", noTools, stops}, with: []string{clean, noTools, stops}, leaks: 1},
		{name: "endless_crash", without: []string{clean, "bad: Bad: Its card spins forever", liesStop}, with: []string{clean, "good: Good: 1 tool, interrupted", crashed}, cards: 1, interrupted: 1},
		{name: "crash_immediate", without: []string{noText, noTools, liesStop}, with: []string{noText, noTools, crashed}},
		{name: "inline_code", without: []string{clean, noTools, stops}, with: []string{clean, noTools, stops}},
	} {
		if test.name != "" {
			playRecording(b, test.name)
		}
		for side, want := range map[string][]string{"without": test.without, "with": test.with} {
			if got := verdict(b, side); got != strings.Join(want, "\n") {
				t.Errorf("%s: %s the sidecar\n%s\nwant\n%s", test.name, side, got, strings.Join(want, "\n"))
			}
		}
		for selector, want := range map[string]int{
			".without .leak": test.leaks, ".with .leak": 0, ".without .card": test.cards, ".without .card.completed": 0,
			".with .card": test.completed + test.interrupted, ".with .card.completed": test.completed, ".with .card.interrupted": test.interrupted,
		} {
			if got := b.Count(selector); got != want {
				t.Errorf("%s: %d of %s, want %d", test.name, got, selector, want)
			}
		}
		left, right := b.Text("#without-answer"), b.Text("#with-answer")
		if !strings.Contains(left, test.left) || !strings.Contains(right, test.right) || test.notOnRight != "" && strings.Contains(right, test.notOnRight) {
			t.Errorf("%s: on the left\n%s\non the right\n%s", test.name, left, right)
		}
		if test.completed > 0 && !strings.Contains(b.Text(".with .card .state"), "completed in ") {
			t.Errorf("%s: the first card does not say how long its tool took", test.name)
		}
		if test.name == "think_tags" {
			b.Click(".with .reasoning summary") // it is folded
			if right = b.Text("#with-answer"); !strings.Contains(right, "secret plan") {
				t.Errorf("unfolded:\n%s", right)
			}
		}
	}
	b.CheckQuiet(page)
}

// The button kills the backend for both connections of the run, and only one
// of the two clients is told.
func TestPageKillsTheBackend(t *testing.T) {
	b, page := openPage(t, "--speed", "2")
	if got := browser.Eval[string](b, `document.getElementById("kill").getAttribute("aria-disabled")`); got != "true" {
		t.Errorf("the button is not disabled after the end: %q", got)
	}
	b.Click(`input[value="slow_tool"]`)
	b.Wait(`document.querySelector(".with .card.running") && document.querySelector(".without .leak")`)
	b.Picture("running")
	b.Click("#kill")
	b.Wait(bothEnded)
	if got, want := verdict(b, "without"), "bad: Bad: 1 tool marker in the text\nbad: Bad: No tool card, though 1 tool ran\nbad: Bad: Breaks off without saying why"; got != want {
		t.Errorf("without the sidecar\n%s\nwant\n%s", got, want)
	}
	if got, want := verdict(b, "with"), "good: Good: Clean text\ngood: Good: 1 tool, interrupted\ngood: Good: Ends in an error that says why: upstream_aborted"; got != want {
		t.Errorf("with the sidecar\n%s\nwant\n%s", got, want)
	}
	if got := b.Text(".with .failure"); !strings.Contains(got, "connection to the agent was lost") || !strings.Contains(got, "upstream_aborted") {
		t.Errorf("the error is %q", got)
	}
	// That is the browser's own word on the connection that broke.
	b.CheckQuiet(page, "ERR_INCOMPLETE_CHUNKED_ENCODING ("+page+"without/")
}

// The drawer has the frames of both sides, as text, and says what differs.
func TestPageShowsRawFrames(t *testing.T) {
	b, page := openPage(t, "--speed", "4")
	playRecording(b, "one_tool")
	if got, want := b.Text("#tally"), "8 the same, 0 changed, 1 taken out, 3 added"; got != want {
		t.Errorf("the tally is %q, want %q", got, want)
	}
	if b.Count("#frames li") != 0 {
		t.Error("the drawer is filled while it is closed")
	}
	b.Click("#drawer summary")
	b.Wait(`document.querySelectorAll("#frames li").length === 12`)
	kinds := browser.Eval[string](b, `[...document.querySelectorAll("#frames .kind")].map((k) => k.textContent).join()`)
	if want := "same,same,same,taken out,added,added,added,same,same,same,same,same"; kinds != want {
		t.Errorf("kinds %s, want %s", kinds, want)
	}
	if got := b.Text("#frames .added pre"); !strings.HasPrefix(got, "event: hermes.tool.progress\ndata: {") {
		t.Errorf("the added frame is %q", got)
	}
	playRecording(b, "endless_cards")
	if got, want := b.Text("#tally"), "7 the same, 3 changed, 0 taken out, 6 added"; got != want {
		t.Errorf("the tally is %q, want %q", got, want)
	}
	if got := b.Text("#frames .changed .cell:nth-child(3) mark"); !strings.Contains(got, `"id":"chatcmpl-`) {
		t.Errorf("what has changed is %q", got)
	}
	b.CheckQuiet(page)
}

// Everything can be done without a pointer.
func TestPageWorksWithTheKeyboard(t *testing.T) {
	b, page := openPage(t, "--speed", "4")
	focused := func() string {
		t.Helper()
		return browser.Eval[string](b, `document.activeElement.id || document.activeElement.value || document.activeElement.localName`)
	}
	press := func(keys string) {
		t.Helper()
		b.Do(chromedp.KeyEvent(keys))
	}
	press(kb.Tab)
	if got := focused(); got != "cards" {
		t.Fatalf("the first is %q, want the recordings", got)
	}
	for range 7 {
		press(kb.ArrowRight)
	}
	if got := focused(); got != "think_tags" {
		t.Fatalf("seven further is %q", got)
	}
	if got := verdict(b, "without"); !strings.Contains(got, "though 3 tools ran") {
		t.Error("an arrow key has played a recording")
	}
	order := []string{"prompt", "send", "kill", "slow", "summary"}
	for _, want := range order {
		press(kb.Tab)
		if got := focused(); got != want {
			t.Errorf("focus on %q, want %q", got, want)
		}
		if browser.Eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`) != "solid" {
			t.Errorf("the focus on %s is not visible", want)
		}
	}
	press(kb.Enter) // opens the drawer
	b.Wait(`document.getElementById("drawer").open`)

	browser.Eval[any](b, `document.getElementById("prompt").focus()`)
	press("?")
	press(kb.Enter)
	b.Wait(`document.querySelector("#with-question").innerText === "What is the answer??"`)
	b.Wait(bothEnded)
	if got := b.Text("#with-answer"); !strings.Contains(got, "Answer 42") {
		t.Errorf("the answer is %q", got)
	}
	if got := b.Text("#status"); !strings.Contains(got, "With the sidecar: Clean text, No tools, Ends in “stop”.") {
		t.Errorf("the status is %q", got)
	}

	browser.Eval[any](b, `document.querySelector('input[value="endless_slow"]').focus()`)
	press(" ") // chooses it
	press(kb.Enter)
	b.Wait(`document.querySelector(".with .card.running")`)
	browser.Eval[any](b, `document.getElementById("kill").focus()`)
	press(" ")
	b.Wait(bothEnded)
	if got := b.Text(".with .failure"); !strings.Contains(got, "upstream_aborted") {
		t.Errorf("the error is %q", got)
	}
	if got := focused(); got != "kill" {
		t.Errorf("the focus has gone to %q", got)
	}
	b.CheckQuiet(page, "ERR_INCOMPLETE_CHUNKED_ENCODING ("+page+"without/")
}

// framesOf makes the frames of a list of chunks of a stream, in the browser.
const framesOf = `async (chunks) => {
	const { EventStreamParser } = await import("/eventstream.js");
	const parser = new EventStreamParser();
	const bytes = chunks.map((c) => Uint8Array.fromBase64(c));
	return JSON.stringify([...bytes.flatMap((b) => parser.push(b)), ...parser.end()]);
}`

// The page's parser reads event streams as the standard says, and the frames
// do not depend on where the bytes were cut.
func TestPageParsesEventStreams(t *testing.T) {
	b := browser.New(t, 800, 600, "prefers-reduced-motion: reduce")
	page := demoPage(t)
	b.Do(chromedp.Navigate(page))
	type frame struct {
		Raw, Event, Data string
		HasData, Torn    bool
	}
	for _, test := range []struct {
		name, stream string
		want         []frame
	}{
		{"line feeds", "data: a\ndata:  b\n\n: hi\n\ndata\n\n", []frame{
			{"data: a\ndata:  b\n\n", "", "a\n b", true, false}, {": hi\n\n", "", "", false, false}, {"data\n\n", "", "", true, false}}},
		{"carriage returns", "event: x\rdata:1\r\rdata: 2\r\r", []frame{
			{"event: x\rdata:1\r\r", "x", "1", true, false}, {"data: 2\r\r", "", "2", true, false}}},
		{"both", "data: 1\r\n\r\ndata: 2\r\n\r\n", []frame{
			{"data: 1\r\n\r\n", "", "1", true, false}, {"data: 2\r\n\r\n", "", "2", true, false}}},
		{"byte order mark", "\ufeffdata: é😀\n\n\ufeffdata: no field\n\n", []frame{
			{"\ufeffdata: é😀\n\n", "", "é😀", true, false}, {"\ufeffdata: no field\n\n", "", "", false, false}}},
		{"torn", "data: 1\n\nevent: e\nevent: f\ndata: 2", []frame{
			{"data: 1\n\n", "", "1", true, false}, {"event: e\nevent: f\ndata: 2", "f", "", false, true}}},
	} {
		var cuts [][]string
		for i := range len(test.stream) + 1 {
			cuts = append(cuts, []string{test.stream[:i], test.stream[i:]})
		}
		cuts = append(cuts, strings.Split(test.stream, ""))
		for _, cut := range cuts {
			var got []frame
			chunks := make([][]byte, len(cut))
			for i := range cut {
				chunks[i] = []byte(cut[i])
			}
			encoded, _ := json.Marshal(chunks) // in base64
			script := fmt.Sprintf(`(%s)(%s)`, framesOf, encoded)
			if err := json.Unmarshal([]byte(browser.Eval[string](b, script)), &got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Fatalf("%s, cut into %q:\n%+v\nwant\n%+v", test.name, cut, got, test.want)
			}
		}
	}
	b.CheckQuiet(page)
}

// Nothing that comes over the wire or out of the prompt becomes HTML.
func TestPageShowsHTMLAsText(t *testing.T) {
	const hostile = `<img src=/x onerror="document.title='owned'"><script>document.title='owned'</script>`
	b, page := openPage(t, "--speed", "4")
	browser.Eval[any](b, fmt.Sprintf(`document.getElementById("prompt").value = %q`, hostile))
	b.Click("#send")
	b.Wait(bothEnded)
	if got := b.Text("#with-question"); got != hostile {
		t.Errorf("the question is %q", got)
	}
	browser.Eval[any](b, fmt.Sprintf(`(async () => {
		const { Answer } = await import("/answer.js");
		const { Transcript } = await import("/transcript.js");
		const { Frames } = await import("/frames.js");
		const bad = %q;
		const data = (o) => ({ raw: "data: " + JSON.stringify(o) + "\n\n", event: "", data: JSON.stringify(o), hasData: true, torn: false });
		const t = new Transcript();
		t.add(data({ choices: [{ delta: { reasoning_content: bad } }] }), 0);
		t.add(data({ choices: [{ delta: { content: bad + "\n\x60💻 " + bad + "\x60\n<think>" + bad } }] }), 0);
		t.add(data({ tool: bad, emoji: bad, label: bad, toolCallId: bad, status: "running" }), 0);
		t.add(data({ error: { message: bad, code: bad } }), 0);
		new Answer(document.getElementById("with-answer")).show(t, 1);
		document.getElementById("drawer").open = true;
		new Frames(document.getElementById("drawer"), document.getElementById("frames"), document.getElementById("tally")).show(t.frames, []);
	})()`, hostile))
	if n := b.Count("main img, main script"); n != 0 {
		t.Errorf("%d elements of the text's own", n)
	}
	if n := strings.Count(b.Text("#with-answer"), "onerror"); n < 7 {
		t.Errorf("%d of the texts are shown", n)
	}
	if got := browser.Eval[string](b, "document.title"); strings.Contains(got, "owned") {
		t.Error("a script of the text's own has run")
	}
	b.CheckQuiet(page)
}

// screenshotVariable names the file that the picture of docs/demo.md is
// written to; lint/pictures_test.go has the command.
const screenshotVariable = "HERMES_SCREENSHOT"

// The page can be read in light and dark, and on a narrow screen nothing is
// wider than it.
func TestPageLooks(t *testing.T) {
	page := demoPage(t, "--speed", "4")
	browser.Looks(t, func(t *testing.T, look string, b *browser.Tab) {
		b.Do(chromedp.Navigate(page))
		b.Wait(bothEnded)
		b.Picture(look)
		for _, name := range []string{"endless_crash", "think_tags", "kill"} {
			playRecording(b, name)
			b.Picture(look + " " + name)
			b.CheckLegible(name, 41, "")
		}
		browser.Eval[any](b, `document.getElementById("drawer").open = true`)
		b.Wait(`document.querySelector("#frames li")`)
		b.Picture(look + " frames")
		b.CheckLegible("the drawer", 41, "")
		b.CheckQuiet(page, "ERR_INCOMPLETE_CHUNKED_ENCODING ("+page+"without/")
	})
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

// The picture of docs/demo.md is what the page looks like, and not too large.
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
