package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// framesOf makes the frames of a list of chunks of a stream, in the browser.
const framesOf = `async (chunks) => {
	const { EventStreamParser } = await import("/eventstream.js");
	const parser = new EventStreamParser();
	const bytes = chunks.map((c) => Uint8Array.from(c));
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
		cuts = append(cuts, strings.Split(test.stream, ""), single(test.stream))
		for _, cut := range cuts {
			var got []frame
			script := fmt.Sprintf(`(%s)(%s)`, framesOf, octets(cut))
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

// single cuts a string into its bytes.
func single(s string) []string {
	var out []string
	for i := range len(s) {
		out = append(out, s[i:i+1])
	}
	return out
}

// octets writes chunks as lists of numbers.
func octets(chunks []string) string {
	lists := make([]string, len(chunks))
	for i, c := range chunks {
		lists[i] = strings.ReplaceAll(fmt.Sprint([]byte(c)), " ", ",")
	}
	return "[" + strings.Join(lists, ",") + "]"
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
