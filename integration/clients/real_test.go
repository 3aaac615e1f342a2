// Package clients shows the recordings to real clients, with and without the sidecar. The
// drivers, small programs around a client each, are in the folders beside (README.md).
//
// TestRealClients runs the clients of Go always. HERMES_CLIENTS, as "install", also installs
// and runs those of Node and Python, and of Java and Rust; as "required" it fails for want of one of
// Node or Python, and leaves out Java and Rust. docs/clients.md is compared with what they see, and
// written by -update.
//
// The tests TestResuming... run the code that docs/resume-programs.md shows, one in a real browser, and
// cut its connections.
//
// TestOpenWebUI drives a real Open WebUI in a browser if HERMES_OPENWEBUI names one or is
// "install", and TestRealLibreChat LibreChat's engine if HERMES_LIBRECHAT is "install": see
// docs/open-webui.md. TestCutConnections cuts the connections of both.
//
// TestRealHermes runs a real Hermes gateway behind the sidecar if HERMES_AGENT is "install" or
// a version: see docs/hermes.md.
package clients

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// TestRealClients shows the recordings to clients that people have, each in the
// loop that its documentation shows: a good answer is its text and no error, and
// a bad one is an error that the program sees within a second. What comes of it
// is the table of docs/clients.md.
func TestRealClients(t *testing.T) {
	shop, lab := newWorkshop(t), newLab(t)
	var tried []*trial
	for _, runtime := range []string{"Go", "Node", "Python", "Java", "Rust"} {
		first := len(tried)
		for _, c := range realClients {
			if c.runtime == runtime {
				tried = append(tried, begin(t, shop, c))
			}
		}
		for _, r := range tried[first:] {
			r.beginTroubles(lab)
		}
		for _, r := range tried[first:] {
			t.Run(r.client.name, func(t *testing.T) { r.run(t, lab) })
		}
	}
	for _, r := range tried {
		if r.err == nil {
			t.Run("refused and lost "+r.client.name, r.checkTroubles)
		}
	}
	t.Run("docs", func(t *testing.T) { checkClientsDoc(t, tried) })
}

// A trial is what one client did.
type trial struct {
	client   realClient
	err      error // why it could not be tried
	d        *driver
	cells    map[string]map[string][]outcome // by variant, and scenario with generation
	troubles map[string]func() trouble       // of refused connections by variant, of lost answers by way
}

// begin starts a driver.
func begin(t *testing.T, shop *workshop, c realClient) *trial {
	r := &trial{client: c, cells: map[string]map[string][]outcome{}, troubles: map[string]func() trouble{}}
	cmd, err := shop.command(t, c)
	if err != nil {
		r.err = err
		return r
	}
	r.d = startDriver(t, cmd)
	return r
}

// beginTroubles lets a driver ask where no server answers, and where the answer is lost. It does not
// wait for what comes of it: clients try again, for minutes.
func (r *trial) beginTroubles(lab *lab) {
	if r.err != nil {
		return
	}
	r.d.ready()
	begin := func(name string, ask func() trouble) {
		r.troubles[name] = sync.OnceValue(ask)
		go r.troubles[name]()
	}
	for _, v := range []string{byDefault, direct} {
		begin(v, func() trouble { return lab.refuse(r.d.t, r.d, v) })
	}
	for _, way := range r.ways() {
		begin(way, func() trouble { return lab.lose(r.d, way) })
	}
}

// run shows the client all there is to see, but for refused connections.
func (r *trial) run(t *testing.T, lab *lab) {
	if errors.Is(r.err, errByHand) {
		t.Skip(r.err)
	}
	if r.err != nil {
		harness.Missing(t, clientsVariable, r.err.Error())
	}
	for _, v := range append([]variant{{name: direct}}, variants...) {
		if r.client.brief && v.name != direct && v.name != byDefault && v.name != keepaliveChunk {
			continue
		}
		b := lab.bench(t, r.d, v.name)
		switch v.name {
		case direct, byDefault:
			for _, s := range scenarios {
				r.show(t, b, s)
			}
		case keepaliveChunk, keepaliveComment:
			for _, s := range silences {
				r.show(t, b, s)
			}
		default:
			for _, s := range scenarios {
				if s.tools || s.asks {
					r.show(t, b, s)
				}
			}
		}
	}
	r.check(t)
}

// show plays all recordings of a scenario. Without a sidecar, where nothing is
// timed, it plays them at once: some clients try again for seconds.
func (r *trial) show(t *testing.T, b *bench, s scenario) {
	var at []string
	var all []*outcome
	var playing sync.WaitGroup
	for _, g := range generations {
		for _, rec := range s.recs {
			for _, kind := range s.kinds {
				o := &outcome{}
				at, all = append(at, s.title+" "+g.short), append(all, o)
				if b.variant != direct {
					*o = b.run(t, s, kind, g.dir, rec)
					continue
				}
				own := b.lab.bench(t, b.d, direct)
				playing.Go(func() { *o, _ = own.once(t, s, kind, g.dir, rec) })
			}
		}
	}
	playing.Wait()
	if r.cells[b.variant] == nil {
		r.cells[b.variant] = map[string][]outcome{}
	}
	for i, o := range all {
		r.cells[b.variant][at[i]] = append(r.cells[b.variant][at[i]], *o)
	}
}

// checkTroubles wants an error of each request without an answer. Clients that heed X-Should-Retry ask
// an agent once that may be running.
func (r *trial) checkTroubles(t *testing.T) {
	for name, of := range r.troubles {
		got := of()
		t.Logf("%s: %s, %d requests; %s", name, got.cell, got.requests, got.why)
		if name != direct && !got.ok && got.cell != r.client.refusal {
			t.Errorf("%s: %s; %s", name, got.cell, got.why)
		}
		if slices.Contains(r.ways(), name) && (got.requests != 1) != r.client.insists {
			t.Errorf("%s: the agent was asked %d times", name, got.requests)
		}
	}
}

// check wants that the client is served as the contract promises: by default or,
// if it is strict, with the option that is documented for it, and that it needs
// that option.
func (r *trial) check(t *testing.T) {
	t.Helper()
	switch {
	case r.client.failure != "":
		r.checkVariant(t, byDefault, func(s scenario) bool { return s.good })
		for _, s := range scenarios {
			if got := r.cell(byDefault, s.title); !s.good && got != r.client.failure {
				t.Errorf("%s: %s, want %s", s.title, got, r.client.failure)
			}
		}
	case !r.client.strict:
		r.checkVariant(t, byDefault, anyScenario)
	default:
		if r.fine(byDefault, anyScenario) {
			t.Error("it needs no option: it is not strict")
		}
		r.checkVariant(t, byDefault, func(s scenario) bool { return !withOptions(s) })
		r.checkVariant(t, "unnamed", withOptions)
		r.checkVariant(t, "off", withTools)
	}
	early, later := r.cell(keepaliveChunk, silences[0].title), r.cell(keepaliveChunk, silences[1].title)
	if (early == "ok") == r.client.noComments || later != "ok" {
		t.Errorf("a keepalive before the first chunk: %s, later: %s", early, later)
	}
	if tools := r.toolsSeen(); (tools == "yes") != r.client.tools {
		t.Errorf("it sees tool events: %s", tools)
	}
	for _, s := range scenarios {
		if with, without := r.cell(byDefault, s.title), r.cell("plain", s.title); !r.client.brief && withOptions(s) && with != without {
			t.Errorf("%s with cards: %s, without: %s", s.title, with, without)
		}
	}
	if reasoning := r.reasoningSeen(); (reasoning == "yes") == r.client.noReasoning {
		t.Errorf("it sees reasoning: %s", reasoning)
	}
}

// checkVariant fails for unexpected outcomes.
func (r *trial) checkVariant(t *testing.T, variant string, keep func(s scenario) bool) {
	t.Helper()
	for _, s := range scenarios {
		for _, g := range generations {
			for _, o := range r.cells[variant][s.title+" "+g.short] {
				if keep(s) && !o.ok {
					t.Errorf("%s, %s of %s: %s; %s", variant, s.title, g.short, o.cell, o.why)
				}
			}
		}
	}
}

// A realClient is a client that the sidecar is tested with. What it sees and
// needs is what the tests hold it to; docs/clients.md says the same.
type realClient struct {
	name    string
	runtime string // Go, Node, Python, Java or Rust
	driver  string // file below clients/<runtime>, for Go the directory, for Rust the program
	args    []string
	lock    string // of Python and Node clients: a file below clients/python, a directory below clients

	strict      bool // it needs progress unnamed or off
	noComments  bool // it breaks on a comment
	tools       bool // a program sees tool events
	noReasoning bool // no program sees reasoning
	whole       bool // it is also asked for answers that are not streamed
	insists     bool // it sends a request again although X-Should-Retry is false

	brief   bool   // to save time, it is tried with the defaults alone, and with keepalives
	failure string // the cell of an error in the stream, if the program sees no error
	refusal string // that of a 502, if its message and code are lost
}

var realClients = []realClient{
	{name: "openai-go", runtime: "Go", driver: "openai", tools: true, whole: true},
	{name: "openai-go 1, old", runtime: "Go", driver: "openai-v1", noComments: true},
	{name: "go-openai", runtime: "Go", driver: "go-openai", strict: true},
	{name: "openai-node", runtime: "Node", driver: "openai.mjs", lock: "node", args: []string{"openai"}, tools: true, whole: true},
	{name: "openai-node 5", runtime: "Node", driver: "openai.mjs", lock: "node", args: []string{"openai-5"}, tools: true, whole: true},
	{name: "openai-node 5, old", runtime: "Node", driver: "openai.mjs", lock: "node", args: []string{"openai-5-old"}, strict: true, tools: true, whole: true},
	{name: "openai-node 4", runtime: "Node", driver: "openai.mjs", lock: "node", args: []string{"openai-4"}, strict: true, tools: true, whole: true},
	{name: "AI SDK", runtime: "Node", driver: "ai-sdk.mjs", lock: "node", insists: true},
	{name: "LangChain.js", runtime: "Node", driver: "langchain.mjs", lock: "node", insists: true},
	{name: "fetch-event-source", runtime: "Node", driver: "fetch-event-source.mjs", lock: "node", tools: true, insists: true},
	{name: "eventsource-parser", runtime: "Node", driver: "eventsource-parser.mjs", lock: "node", tools: true},
	{name: "openai-python", runtime: "Python", driver: "openai_driver.py", lock: "openai.txt", tools: true, whole: true},
	{name: "openai-python, old", runtime: "Python", driver: "openai_driver.py", lock: "openai-old.txt", strict: true, tools: true, whole: true},
	{name: "LangChain", runtime: "Python", driver: "langchain_driver.py", lock: "langchain.txt", noReasoning: true, whole: true},
	{name: "LiteLLM", runtime: "Python", driver: "litellm_driver.py", lock: "litellm.txt"},
	{name: "openai-agents", runtime: "Python", driver: "openai_agents_driver.py", lock: "agents.txt", brief: true},
	{name: "openai-agents for Node", runtime: "Node", driver: "openai-agents.mjs", lock: "agents", brief: true, noReasoning: true},
	{name: "pydantic-ai", runtime: "Python", driver: "pydantic_ai_driver.py", lock: "agents.txt", brief: true},
	{name: "smolagents", runtime: "Python", driver: "smolagents_driver.py", lock: "agents.txt", brief: true, noReasoning: true},
	{name: "semantic-kernel", runtime: "Python", driver: "semantic_kernel_driver.py", lock: "agents.txt", brief: true, noReasoning: true},
	{name: "llm", runtime: "Python", driver: "llm_driver.py", lock: "agents.txt", brief: true, noReasoning: true},
	{name: "Mastra", runtime: "Node", driver: "mastra.mjs", lock: "agents", brief: true},
	{name: "copass-hermes-agents", runtime: "Python", driver: "copass_driver.py", lock: "agents.txt", brief: true, noReasoning: true, insists: true, failure: "finish reason alone", refusal: "another error"},
	{name: "openai-java", runtime: "Java", driver: "Drive.java", args: []string{"openai-java"}, brief: true, tools: true},
	{name: "langchain4j", runtime: "Java", driver: "Drive.java", args: []string{"langchain4j-open-ai"}, brief: true, failure: "looks like a success"},
	{name: "async-openai", runtime: "Rust", driver: "async-openai", brief: true, noReasoning: true, insists: true},
}

// The generations of recordings that clients are shown, by their short names.
var generations = []struct{ short, dir string }{
	{"G0", "g0-v0.8.0"}, {"G1", "g1-v0.9.0"}, {"G2", "g2-v0.13.0"}, {"G3", "g3-v0.20.3"},
}

// modern is the generation whose text every client must get.
const modern = "g3-v0.20.3"

// A scenario is a column of the table.
type scenario struct {
	title string
	kinds []string // of the playbook's answers
	recs  []string // recordings of each generation
	good  bool     // the answer is a success
	tools bool     // it has tool events: options change it
	asks  bool     // it has other events of the newest Hermes: likewise
}

var scenarios = []scenario{
	{title: "plain", kinds: []string{playWhole}, recs: []string{"plain"}, good: true},
	{title: "one tool", kinds: []string{playWhole}, recs: []string{"one_tool"}, good: true, tools: true},
	{title: "parallel tools", kinds: []string{playWhole}, recs: []string{"parallel_tools"}, good: true, tools: true},
	{title: "approval", kinds: []string{playAsked}, recs: []string{"plain"}, good: true, asks: true},
	{title: "reasoning", kinds: []string{playWhole}, recs: []string{"reasoning", "think_tags"}, good: true},
	{title: "crash at once", kinds: []string{playWhole}, recs: []string{"crash_immediate"}},
	{title: "crash after text", kinds: []string{playWhole}, recs: []string{"crash_after_text"}},
	{title: "crash in a tool", kinds: []string{playWhole}, recs: []string{"crash_in_tool"}, tools: true},
	{title: "killed", kinds: []string{playTorn, playReset}, recs: []string{"one_tool"}, tools: true},
}

// silences are the scenarios of the variants with keepalives: upstream says
// nothing for a while. They have no tools, on which strict clients break anyway.
var silences = []scenario{
	{title: "silence before the first chunk", kinds: []string{playEarly}, recs: []string{"plain"}, good: true},
	{title: "silence later", kinds: []string{playSlow}, recs: []string{"plain"}, good: true},
}

// An expected is what a modern Hermes has answered, read from its recording, and
// what the sidecar says of a failure.
type expected struct {
	text      string
	reasoning string
	err       strict.APIError // what comes on the wire, of a failure
	direct    bool            // no sidecar: an error may be any
}

// thought is reasoning between tags.
var thought = regexp.MustCompile(`(?s)<think>(.*?)</think>`)

// expect reads what a client must see of a scenario.
func expect(t testing.TB, generation, rec string) expected {
	t.Helper()
	e := expected{text: strict.Decode(t, string(hermes.Recorded(t, modern+"/"+rec).Body)).Content}
	raw := strict.Decode(t, string(hermes.Recorded(t, generation+"/"+rec).Body)).Content
	if m := thought.FindStringSubmatch(raw); m != nil {
		e.reasoning = m[1]
	}
	return e
}

// An outcome is what became of one case, in the words of the table.
type outcome struct {
	ok   bool   // as the contract wants it
	cell string // such as "ok", "error" or what is wrong
	how  string // of an error: the way in which the program sees it
	why  string // details, for the log
	seen seen
}

// soon is how long after a failure a program must have seen it: far less than a
// timeout of its own would take, and far more than a busy machine does.
const soon = 20 * time.Second

// judge looks at what a program has seen of an answer of a kind.
func (s scenario) judge(got seen, want expected, kind string) outcome {
	o := judgeGood(got, want)
	if !s.good {
		o = judgeBad(got, want, kind != playWhole)
	}
	o.seen = got
	return o
}

// judgeGood looks at an answer that is a success.
func judgeGood(got seen, want expected) outcome {
	switch {
	case got.hung:
		return outcome{cell: "hangs"}
	case got.Error != nil:
		return outcome{cell: "breaks", why: fmt.Sprintf("%+v", *got.Error)}
	case got.Finish != "" && got.Finish != "stop":
		return outcome{cell: "finish reason " + got.Finish}
	case got.Text == want.text && (got.Reasoning == want.reasoning || got.Reasoning == ""):
		return outcome{ok: true, cell: "ok"}
	case strings.Contains(got.Text, "\n`"):
		return outcome{cell: "markers in the text"}
	case strings.Contains(got.Text, "<think>"):
		return outcome{cell: "tags in the text"}
	}
	return outcome{cell: "wrong text", why: fmt.Sprintf("%q and reasoning %q, want %q and %q", got.Text, got.Reasoning, want.text, want.reasoning)}
}

// judgeBad looks at an answer that is a failure. partial says that its text may
// end early.
func judgeBad(got seen, want expected, partial bool) outcome {
	switch {
	case got.hung:
		return outcome{cell: "hangs"}
	case got.Error == nil && got.Finish == "error":
		return outcome{cell: "finish reason alone"}
	case got.Error == nil:
		return outcome{cell: "looks like a success", why: fmt.Sprintf("text %q, finish %q", got.Text, got.Finish)}
	case got.Error.How == "panic" || got.Error.How == "crash":
		return outcome{cell: "the program ends", why: got.Error.Message}
	case want.direct:
		return outcome{ok: true, cell: "error"}
	case got.Text != want.text && !(partial && strings.HasPrefix(want.text, got.Text)):
		return outcome{cell: "wrong text", why: fmt.Sprintf("%q, want %q", got.Text, want.text)}
	}
	said := got.Error.Message + " " + got.Error.Code
	message, code := strings.Contains(said, want.err.Message), strings.Contains(said, want.err.Code)
	o := outcome{ok: true, cell: "error", how: got.Error.How + " `" + got.Error.Type + "`", why: fmt.Sprintf("%+v", *got.Error)}
	switch {
	case message && code:
	case message:
		o.how += " (message only)"
	case code:
		o.how += " (code only)"
	default:
		o.ok, o.cell = false, "another error"
		o.how += " (neither)"
	}
	return o
}

// ways are those in which the client asks.
func (r *trial) ways() []string {
	if r.client.whole {
		return []string{streamed, notStreamed}
	}
	return []string{streamed}
}

// lossesSeen is how often the agent was asked.
func (r *trial) lossesSeen() string {
	var all []string
	for _, way := range r.ways() {
		all = append(all, fmt.Sprintf("%d %s", r.troubles[way]().requests, way))
	}
	return strings.Join(all, ", ")
}

// tables are those of docs/clients.md, by the names that their comments have.
var tables = map[string]func(tried []*trial) []string{
	"default": defaultTable,
	"seen":    seenTable,
	"options": optionsTable,
	"direct":  directTable,
}

// titles are the columns of all scenarios.
func titles() []string {
	var all []string
	for _, s := range scenarios {
		all = append(all, s.title)
	}
	return all
}

// defaultTable is what clients make of the sidecar as it is.
func defaultTable(tried []*trial) []string {
	lines := head(slices.Concat([]string{"client"}, titles(), []string{"refused", "needs"})...)
	for _, r := range tried {
		lines = append(lines, row(slices.Concat([]string{versioned(r.client.name, r.d.version)}, r.all(byDefault), []string{r.needs()})...))
	}
	return lines
}

// directTable is the same without a sidecar.
func directTable(tried []*trial) []string {
	lines := head(slices.Concat([]string{"client"}, titles(), []string{"refused"})...)
	for _, r := range tried {
		lines = append(lines, row(append([]string{r.client.name}, r.all(direct)...)...))
	}
	return lines
}

// all are the cells of all scenarios, and of a server that refuses connections.
func (r *trial) all(variant string) (cells []string) {
	for _, title := range titles() {
		cells = append(cells, r.cell(variant, title))
	}
	return append(cells, r.troubles[variant]().cell)
}

// seenTable is how programs see what is no text.
func seenTable(tried []*trial) []string {
	lines := head("client", "an error in the stream", "a refused connection", "requests",
		"runs after a lost answer", "tool events", "reasoning")
	for _, r := range tried {
		refused := r.troubles[byDefault]()
		lines = append(lines, row(r.client.name, r.errorsSeen(), refused.how, fmt.Sprint(refused.requests), r.lossesSeen(), r.toolsSeen(), r.reasoningSeen()))
	}
	return lines
}

// optionsTable is what the forms of tool events and of keepalives do to clients.
func optionsTable(tried []*trial) []string {
	lines := head("client", "`progress envelope`", "`unnamed`", "`off`", "`comment`", "`cards off`", "an approval with `unnamed`", "with `off`",
		"a keepalive before the first chunk", "`keepalive_form chunk`", "`keepalive_form comment`")
	for _, r := range tried {
		cells := []string{r.client.name}
		for _, v := range []string{byDefault, "unnamed", "off", "comment", "plain"} {
			var wrong []string
			for _, s := range scenarios {
				if c := r.cell(v, s.title); s.tools && c != "ok" && c != "error" && !slices.Contains(wrong, c) {
					wrong = append(wrong, c)
				}
			}
			if len(wrong) == 0 {
				wrong = []string{"ok"}
			}
			cells = append(cells, strings.Join(wrong, ", "))
		}
		for _, v := range []string{"unnamed", "off"} {
			cells = append(cells, r.cell(v, "approval"))
		}
		lines = append(lines, row(append(cells, r.cell(keepaliveChunk, silences[0].title),
			r.cell(keepaliveChunk, silences[1].title), r.cell(keepaliveComment, silences[1].title))...))
	}
	return lines
}

// cell is what became of a scenario, generations collapsed that are alike: "ok",
// or "G0: breaks; G1–G3: ok".
func (r *trial) cell(variant, title string) string {
	type group struct{ first, last, cell string }
	var groups []group
	for _, g := range generations {
		c := worst(r.cells[variant][title+" "+g.short])
		if n := len(groups); n > 0 && groups[n-1].cell == c {
			groups[n-1].last = g.short
			continue
		}
		groups = append(groups, group{g.short, g.short, c})
	}
	if len(groups) == 1 {
		return groups[0].cell
	}
	var parts []string
	for _, g := range groups {
		if g.first != g.last {
			g.first += "–" + g.last
		}
		parts = append(parts, g.first+": "+g.cell)
	}
	return strings.Join(parts, "; ")
}

// worst is the first cell that is not as it should be, or the first.
func worst(all []outcome) string {
	for _, o := range all {
		if !o.ok {
			return o.cell
		}
	}
	if len(all) == 0 {
		return "not tried"
	}
	return all[0].cell
}

// fine says that all is as it should be, in a variant.
func (r *trial) fine(variant string, keep func(s scenario) bool) bool {
	for _, s := range scenarios {
		for _, g := range generations {
			all := r.cells[variant][s.title+" "+g.short]
			if keep(s) && (len(all) == 0 || slices.ContainsFunc(all, func(o outcome) bool { return !o.ok })) {
				return false
			}
		}
	}
	return true
}

func anyScenario(scenario) bool { return true }

func withTools(s scenario) bool { return s.tools }

func withOptions(s scenario) bool { return s.tools || s.asks }

// needs are the options with which a client works that does not by default.
func (r *trial) needs() string {
	if r.fine(byDefault, anyScenario) {
		return "nothing"
	}
	if r.client.failure != "" {
		return "a look at the finish reason"
	}
	var ways []string
	for _, v := range []string{"unnamed", "off"} {
		if r.fine(v, withOptions) {
			ways = append(ways, "`progress "+v+"`")
		}
	}
	if len(ways) == 0 {
		return "nothing helps"
	}
	return strings.Join(ways, " or ")
}

// best is the variant in which a client is used.
func (r *trial) best() string {
	if !r.fine(byDefault, anyScenario) && r.fine("unnamed", withOptions) {
		return "unnamed"
	}
	return byDefault
}

// errorsSeen are the ways in which errors in a stream are seen.
func (r *trial) errorsSeen() string {
	var ways []string
	for _, s := range scenarios {
		for _, g := range generations {
			for _, o := range r.cells[r.best()][s.title+" "+g.short] {
				if o.how != "" && !slices.Contains(ways, o.how) {
					ways = append(ways, o.how)
				}
			}
		}
	}
	if len(ways) == 0 {
		return r.client.failure
	}
	return strings.Join(ways, "; ")
}

// toolsSeen reports whether a program sees the beginning and the end of a tool.
func (r *trial) toolsSeen() string {
	for _, g := range generations {
		for _, o := range r.cells[r.best()]["one tool "+g.short] {
			if !slices.Equal(o.seen.Tools, []string{"terminal running", "terminal completed"}) {
				return "no"
			}
		}
	}
	return "yes"
}

// reasoningSeen reports whether a program sees reasoning apart from the text.
func (r *trial) reasoningSeen() string {
	for _, o := range r.cells[byDefault]["reasoning G0"] {
		if o.seen.Reasoning != "" {
			return "yes"
		}
	}
	return "no"
}

// updateDocs writes the tables of docs/clients.md instead of comparing them.
var updateDocs = flag.Bool("update", false, "write the tables of docs/clients.md")

var clientsDoc = harness.Path("docs/clients.md")

// generated is a table between two comments of the document.
var generated = regexp.MustCompile(`(?s)(<!-- generated: ([a-z ]+) -->\n)(.*?)(<!-- end -->)`)

// checkClientsDoc compares the tables of the document with what the clients did. Rows of clients that
// could not be tried stay.
func checkClientsDoc(t *testing.T, all []*trial) {
	page := harness.ReadFile(t, clientsDoc)
	seen := 0
	updated := generated.ReplaceAllStringFunc(page, func(block string) string {
		m := generated.FindStringSubmatch(block)
		table := tables[m[2]]
		if m[2] == cutTable {
			return block // see checkCutDoc
		}
		if table == nil {
			t.Errorf("no table is called %q", m[2])
			return block
		}
		seen++
		rows := all
		if m[2] == "options" {
			rows = slices.DeleteFunc(slices.Clone(all), func(r *trial) bool { return r.client.brief })
		}
		want := withUntried(table(slices.DeleteFunc(slices.Clone(rows), (*trial).untried)), m[3], rows)
		if !*updateDocs {
			compareTable(t, m[2], m[3], want)
		}
		return m[1] + strings.Join(merged(want), "\n") + "\n" + m[4]
	})
	if seen != len(tables) {
		t.Errorf("%d of %d tables are in %s", seen, len(tables), clientsDoc)
	}
	if *updateDocs {
		harness.WriteFile(t, clientsDoc, []byte(updated))
	}
}

// untried reports whether the client could not be tried.
func (r *trial) untried() bool { return r.err != nil }

// withUntried returns the lines of a table, and among them those that the document has of clients that
// could not be tried.
func withUntried(lines []string, document string, all []*trial) []string {
	old := unmerged(document)
	for i, r := range all {
		if !r.untried() {
			continue
		}
		is := func(line string) bool {
			return strings.HasPrefix(line, "| "+r.client.name+" |") || strings.HasPrefix(line, "| "+r.client.name+" (")
		}
		if at := slices.IndexFunc(old, is); at >= 0 {
			lines = slices.Insert(lines, min(2+i, len(lines)), old[at])
		}
	}
	return lines
}

// compareTable wants every line of want in the document, whose rows are merged, and no
// others.
func compareTable(t *testing.T, name, have string, want []string) {
	t.Helper()
	lines := map[string]bool{}
	for _, l := range unmerged(have) {
		lines[l] = true
	}
	for _, l := range want {
		if !lines[l] {
			t.Errorf("table %q of %s lacks\n%s\n-update writes it", name, clientsDoc, l)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("table %q of %s has %d lines, want %d", name, clientsDoc, len(lines), len(want))
	}
}

// libreChatVariable is "install" where LibreChat is to be installed and run. It is
// half a gigabyte, and not part of CI.
const libreChatVariable = "HERMES_LIBRECHAT"

// libreChat installs LibreChat's engine and returns the directory of its modules, or skips
// the test.
func libreChat(t *testing.T, shop *workshop) (modules string) {
	t.Helper()
	if os.Getenv(libreChatVariable) != "install" {
		t.Skip("LibreChat is not run: " + libreChatVariable + "=install installs and runs what of it talks to models")
	}
	t.Setenv(clientsVariable, "install")
	modules, err := shop.installModules("librechat")
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// TestRealLibreChat shows the recordings to @librechat/agents, the part of LibreChat
// that talks to models, through the sidecar and, so that the test can fail, without:
// docs/open-webui.md has the same in a table.
func TestRealLibreChat(t *testing.T) {
	d := startDriver(t, exec.Command("node", besideModules(t, libreChat(t, &workshop{t: t}), "librechat/librechat.mjs")))
	d.ready()
	t.Logf("@librechat/agents %s", d.version)

	lab := newLab(t)
	b := lab.bench(t, d, byDefault)
	for _, s := range scenarios {
		for _, g := range generations {
			for _, rec := range s.recs {
				for _, kind := range s.kinds {
					if o := b.run(t, s, kind, g.dir, rec); !o.ok {
						t.Errorf("%s, %s %s: %s (%s)", s.title, g.short, kind, o.cell, o.why)
					}
				}
			}
		}
	}

	without := lab.bench(t, d, direct)
	for title, want := range map[string]string{
		"one tool": "markers in the text", "crash at once": "looks like a success", "crash after text": "looks like a success", "crash in a tool": "looks like a success",
	} {
		s := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.title == title })]
		if o := without.run(t, s, playWhole, "g0-v0.8.0", s.recs[0]); !strings.HasPrefix(o.cell, want) {
			t.Errorf("%s without the sidecar: %s (%s), want %s", title, o.cell, o.why, want)
		}
	}
}
