package clients

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestCutConnections cuts the connection of clients that people have, with hermes_resume in
// the site. Whether the program sees the whole answer, and how often the agent ran, is a
// table of docs/clients.md, in which there is a row for each way to use a client.
func TestCutConnections(t *testing.T) {
	shop := newWorkshop(t)
	up := newCutUpstream(t)
	base, _ := sidecar.ServeCaddyfile(t, cutSite("", up.server.Addr))
	rows := map[string]string{}
	drivers, house := map[string]*driver{}, new(cutHouse)
	for _, w := range cutWays {
		t.Run(w.name(), func(t *testing.T) {
			harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server")
			c := &cutBench{up: up, base: base, way: w, house: house}
			w.start(t, shop, drivers, c)
			rows[w.name()] = c.row(t)
		})
	}
	t.Run("docs", func(t *testing.T) { checkCutDoc(t, rows) })
}

// A place is where the first connection of a program ends.
type place struct {
	title  string
	behind map[string]*regexp.Regexp // of what the client is sent, by kind of stream; nil if it is sent nothing, not even a header
	late   bool                      // it comes back after the end of the run
	killed bool                      // the sidecar is killed, and started again before the client comes back
}

// The kinds of streams, which are the paths of their recordings.
const (
	kindChat     = "/v1/chat/completions"
	kindWhole    = "a chat that is not streamed"
	kindResponse = "/v1/responses"
	kindRun      = "/v1/runs/run_1/events"
)

// inText, inTool and atEnd are where the client has a part of the answer. inText is within an
// event.
var (
	inText = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`"Let me`),
		kindResponse: regexp.MustCompile(`output_text\.delta(?s:.*?)"delta": ?"Let me`),
		kindRun:      regexp.MustCompile(`"delta": ?"Let me`),
		kindWhole:    regexp.MustCompile(`Let me`),
	}
	inTool = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`"running"(?s:.*?)\n\n`),
		kindResponse: regexp.MustCompile(`"function_call"(?s:.*?)\n\n`),
		kindRun:      regexp.MustCompile(`"tool\.started"(?s:.*?)\n\n`),
	}
	atEnd = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`\[DONE\]\n\n`),
		kindResponse: regexp.MustCompile(`data: .*"response\.completed"(?s:.*?)\n\n`),
		kindRun:      regexp.MustCompile(`"run\.completed"(?s:.*?)\n\n`),
	}
)

var places = []place{
	{title: "before the header"},
	{title: "in the text", behind: inText},
	{title: "in a tool", behind: inTool},
	{title: "after the end", behind: atEnd},
	{title: "before the header, back late", late: true},
	{title: "sidecar killed in the text", behind: inText, killed: true},
	{title: "sidecar killed after the end", late: true, killed: true},
}

// in reports whether a stream of the kind has the place.
func (p place) in(kind string) bool { return p.behind == nil || p.behind[kind] != nil }

// A way is a client, and how a program uses it.
type way struct {
	client, how string
	kind        string         // of the stream
	send        map[string]any // members of the case
	resume      string         // subdirectives of hermes_resume
	beside      bool           // a sidecar beside the client comes back for it: hermes-proxy --resume
	start       func(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench)
}

// name returns the first cells of the way's row.
func (w *way) name() string { return w.client + ", " + w.how }

// The ways to use a client.
const (
	asItIs        = "streamed"
	unstreamed    = "not streamed"
	withKey       = "with its own key"
	responses     = "`responses` and `retrieve`"
	configuredKey = "with a configured `key`"
	behindProxy   = "through `hermes-proxy --resume`"
)

// key makes the driver send an Idempotency-Key, one for each question, and ask again after an error.
var key = map[string]any{"key": ""}

var cutWays = []*way{
	{client: "openai-go", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-go", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-go", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "openai-go", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "openai-python", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-python", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-python", how: responses, kind: kindResponse, send: map[string]any{"responses": true}, start: startReal},
	{client: "openai-python", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "openai-python", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "openai-node", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-node", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-node", how: responses, kind: kindResponse, send: map[string]any{"responses": true}, start: startReal},
	{client: "openai-node", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "LangChain", how: asItIs, kind: kindChat, start: startReal},
	{client: "LangChain", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "LangChain", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "LangChain.js", how: asItIs, kind: kindChat, start: startReal},
	{client: "LangChain.js", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "AI SDK", how: asItIs, kind: kindChat, start: startReal},
	{client: "AI SDK", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "AI SDK", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "LibreChat's engine", how: asItIs, kind: kindChat, start: startLibreChat},
	{client: "LibreChat's engine", how: configuredKey, kind: kindChat, start: startLibreChat, resume: "key {http.request.header.X-Conversation-Id} body",
		send: map[string]any{"headers": map[string]string{"X-Conversation-Id": "a conversation"}, "again": true}},
	{client: "Open WebUI", how: asItIs, kind: kindChat, start: startCutOpenWebUI},
	{client: "Open WebUI", how: configuredKey, kind: kindChat, start: startCutOpenWebUI, resume: "key {http.request.header.X-Chat-Id} body"},
	{client: "Open WebUI", how: behindProxy, kind: kindChat, beside: true, start: startCutOpenWebUI},
	{client: "EventSource", how: "run events", kind: kindRun, start: startEventSource},
}

// A cutBench tries one way at all places.
type cutBench struct {
	up       *cutUpstream
	base     string // of a sidecar with hermes_resume
	way      *way
	version  string
	ask      func(base, prompt string) seen
	house    *cutHouse
	oneByOne bool // it cannot be asked several questions at once
}

// row returns the cells of the way: what became of it at each place.
func (c *cutBench) row(t *testing.T) string {
	t.Helper()
	// What is not cut has to be as it is without hermes_resume.
	if got := c.run(t, place{title: "nowhere", behind: map[string]*regexp.Regexp{c.way.kind: regexp.MustCompile("there is none")}}); got != "whole" {
		t.Fatalf("an answer that is not cut: %s", got)
	}
	cells := make([]string, len(places))
	var all sync.WaitGroup
	for i, p := range places {
		if !p.in(c.way.kind) {
			cells[i] = "–"
			continue
		}
		try := func() { cells[i] = c.run(t, p) }
		if c.oneByOne {
			try()
		} else {
			all.Go(try)
		}
	}
	all.Wait()
	return row(append([]string{versioned(c.way.client, c.version), c.way.how}, cells...)...)
}

// soonBack is how long after a cut a client may come back so that its run is surely there: the
// run of an SDK goes on for ten seconds.
const soonBack = 5 * time.Second

// run cuts one answer, and returns what became of it. If the machine is so busy that the
// client comes back too late, it is tried again.
func (c *cutBench) run(t *testing.T, p place) (cell string) {
	t.Helper()
	for range 3 {
		j := c.newJourney(t, p)
		got := c.ask(j.url, j.prompt)
		j.giveUp()
		cell = j.judge(t, got)
		if away := j.away.Load(); away == nil || *away < soonBack {
			break
		}
	}
	return cell
}

// judge returns the cell of what a program has seen.
func (j *journey) judge(t testing.TB, got seen) string {
	asked := j.asked.Load()
	t.Logf("%s: %q, finish %q, error %+v, %d requests, asked %d times", j.at.title, got.Text, got.Finish, got.Error, j.tries.Load(), asked)
	cell, text := "part of it, without an error", strings.TrimSpace(got.Text)
	switch {
	case got.hung:
		cell = "hangs"
	case got.Error != nil && text == j.want:
		cell = "whole, and an error"
	case got.Error != nil:
		cell = "error"
	case text == j.want:
		cell = "whole"
	}
	if asked != 1 {
		cell += fmt.Sprintf(", %d runs", asked)
	}
	return cell
}

// cutTable is the name of the table of cut connections.
const cutTable = "cut"

// checkCutDoc compares the table of the document with the rows, by the names of ways.
func checkCutDoc(t *testing.T, rows map[string]string) {
	t.Helper()
	titles := []string{"client", "used"}
	for _, p := range places {
		titles = append(titles, p.title)
	}
	page := harness.ReadFile(t, clientsDoc)
	block := regexp.MustCompile(`(?s)(<!-- generated: ` + cutTable + ` -->\n)(.*?)(<!-- end -->)`).FindStringSubmatch(page)
	if block == nil {
		t.Fatalf("%s has no table of cut connections", clientsDoc)
	}
	want := head(titles...)
	for _, w := range cutWays {
		line := rows[w.name()]
		if line == "" { // it could not be tried
			line = oldRow(block[2], w)
		}
		if line == "" {
			t.Errorf("%s: it could not be tried, and %s has no row of it", w.name(), clientsDoc)
			continue
		}
		want = append(want, line)
	}
	if *updateDocs {
		harness.WriteFile(t, clientsDoc, []byte(strings.Replace(page, block[0], block[1]+strings.Join(merged(want), "\n")+"\n"+block[3], 1)))
		return
	}
	compareTable(t, cutTable, block[2], want)
}

// oldRow returns the row of a way that a table has, or "".
func oldRow(table string, w *way) string {
	for _, line := range unmerged(table) {
		if cells := strings.Split(line, " | "); len(cells) > 2 && strings.HasPrefix(cells[0], "| "+w.client+" (") && cells[1] == w.how {
			return line
		}
	}
	return ""
}
