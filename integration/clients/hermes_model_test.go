package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A scriptedModel is an OpenAI-compatible provider. The first word of a line of the user's latest
// message names the script: a record of tools may be in front of what the user has written. How many
// messages of the model follow says which turn of it is due.
type scriptedModel struct {
	up      *upstream.Server
	scripts map[string][]modelTurn

	mu      sync.Mutex
	held    int                      // requests that are held now
	offered map[string]bool          // the tools that the agent has offered
	asked   map[string]int           // how often the agent has asked, by question
	bodies  []string                 // of all requests for an answer
	order   []string                 // the questions of answers that last, as they came
	ends    map[string]chan struct{} // of such an answer, by question
}

// A modelTurn is what the model answers to one request of the agent's.
type modelTurn struct {
	says  []string // pieces of text
	calls []modelCall
	id    string // of every call, "" for one of its own
	ends  modelEnd
	n     int    // which turn of its script it is
	about string // the question
}

// A modelCall is a call of a tool, with arguments in JSON.
type modelCall struct{ tool, arguments string }

// A modelEnd is how an answer of the model's ends.
type modelEnd int

const (
	endsWell   modelEnd = iota
	refuses             // HTTP 500 instead of an answer
	breaks              // a reset after the text
	holds               // nothing more after the text
	lasts               // the end comes when the test says so (scriptedModel.end)
	comesWhole          // a refusal to stream: the answer comes whole when Hermes asks for that
)

// providerKey stands in the errors of the provider. No client may see it.
const providerKey = "sk-abcdefghijklmnopqrstuvwx"

func newScriptedModel(t testing.TB, scripts map[string][]modelTurn) *scriptedModel {
	m := &scriptedModel{scripts: scripts, offered: map[string]bool{}, asked: map[string]int{}, ends: map[string]chan struct{}{}}
	m.up = upstream.New(t, m.play)
	return m
}

func (m *scriptedModel) play(x *upstream.Exchange) {
	switch {
	case strings.HasSuffix(x.Req.URL.Path, "/models"):
		upstream.AsJSON("200 OK", `{"object": "list", "data": [{"id": "scripted", "object": "model", "context_length": 200000}]}`)(x)
		return
	case !strings.HasSuffix(x.Req.URL.Path, "/chat/completions"):
		upstream.AsJSON("404 Not Found", `{"error": {"message": "nothing is here"}}`)(x)
		return
	}
	turn, stream := m.due(x.Body)
	switch {
	case turn.ends == refuses:
		upstream.AsJSON("500 Internal Server Error", `{"error": {"message": "the provider is out of order, key `+providerKey+`", "type": "server_error"}}`)(x)
	case stream && turn.ends == comesWhole:
		upstream.AsJSON("500 Internal Server Error", `{"error": {"message": "stream is not supported by this model", "type": "server_error"}}`)(x)
	case stream:
		m.stream(x, turn)
	default:
		upstream.AsJSON("200 OK", turn.whole())(x)
	}
}

// due finds the turn that a request asks for. What the agent asks for itself, such as
// titles, is in no script.
func (m *scriptedModel) due(body []byte) (turn modelTurn, stream bool) {
	var q struct {
		Stream   bool
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Function struct{ Name string } }
	}
	json.Unmarshal(body, &q)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies = append(m.bodies, string(body))
	for _, tool := range q.Tools {
		m.offered[tool.Function.Name] = true
	}
	var script []modelTurn
	var about string
	n := 0
	for _, msg := range q.Messages {
		switch msg.Role {
		case "user":
			if question, turns := m.scriptOf(textOf(msg.Content)); turns != nil {
				about, script, n = question, turns, 0
			}
		case "assistant":
			n++
		}
	}
	if script != nil && q.Stream { // Hermes 0.22 asks for a title, not streamed
		m.asked[about]++
	}
	if n >= len(script) {
		return modelTurn{says: []string{"Well."}}, q.Stream
	}
	turn = script[n]
	turn.n, turn.about = n, about
	return turn, q.Stream
}

// scriptOf finds the question of a user's message, and its script. What quotes a chat, as a prompt for
// a title does, is none.
func (m *scriptedModel) scriptOf(text string) (question string, script []modelTurn) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	question = lines[len(lines)-1]
	word, _, _ := strings.Cut(question, " ")
	return question, m.scripts[word]
}

// write gives a question another script from now on.
func (m *scriptedModel) write(word string, script []modelTurn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[word] = script
}

// asks returns how often the agent has asked about a question.
func (m *scriptedModel) asks(question string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[question]
}

// sent returns the bodies of all requests for an answer so far.
func (m *scriptedModel) sent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.bodies)
}

// textOf is the text of a message's content, a string or parts.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	json.Unmarshal(content, &parts)
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// stream answers with a turn. What follows its text may be nothing.
func (m *scriptedModel) stream(x *upstream.Exchange, turn modelTurn) {
	frame := func(delta, finish, more string) {
		x.Frame(fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1795164799,"model":"scripted","choices":[{"index":0,"delta":%s,"finish_reason":%s}]%s}`, delta, finish, more))
	}
	x.Events()
	frame(`{"role":"assistant","content":""}`, "null", "")
	for _, s := range turn.says {
		frame(`{"content":`+hermes.Quoted(s)+`}`, "null", "")
	}
	switch turn.ends {
	case holds:
		m.hold(1)
		x.Silence()
		m.hold(-1)
		x.Fin()
		return
	case lasts:
		if !x.Wait(m.lasting(turn.about)) {
			return
		}
	case breaks:
		x.Reset()
		return
	}
	finish := `"stop"`
	for i := range turn.calls {
		frame(`{"tool_calls":[`+turn.call(i)+`]}`, "null", "")
		finish = `"tool_calls"`
	}
	frame("{}", finish, modelUsage)
	x.Frame("data: [DONE]")
	x.End()
}

const modelUsage = `,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`

// whole is a turn that is not streamed. It calls no tools.
func (turn modelTurn) whole() string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1795164799,"model":"scripted","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]%s}`,
		hermes.Quoted(strings.Join(turn.says, "")), modelUsage)
}

// call is a call as a provider writes it.
func (turn modelTurn) call(i int) string {
	id := cmp.Or(turn.id, fmt.Sprintf("call_%d_%d", turn.n, i))
	return fmt.Sprintf(`{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`,
		i, id, turn.calls[i].tool, hermes.Quoted(turn.calls[i].arguments))
}

func (m *scriptedModel) hold(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held += n
}

// lasting records that the answer to a question lasts, and returns what ends it.
func (m *scriptedModel) lasting(question string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = append(m.order, question)
	return m.endOf(question)
}

// end ends the answer to a question that lasts.
func (m *scriptedModel) end(question string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.endOf(question))
}

// endOf needs the lock.
func (m *scriptedModel) endOf(question string) chan struct{} {
	if m.ends[question] == nil {
		m.ends[question] = make(chan struct{})
	}
	return m.ends[question]
}

// awaitOrder returns the questions whose answers last, as they came, when there are n.
func (m *scriptedModel) awaitOrder(t testing.TB, n int) (order []string) {
	t.Helper()
	harness.Until(t, fmt.Sprintf("%d requests have come to the model", n), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		order = slices.Clone(m.order)
		return len(order) >= n
	})
	return order
}

// awaitHeld returns when n requests are held.
func (m *scriptedModel) awaitHeld(t testing.TB, n int) {
	t.Helper()
	harness.Until(t, fmt.Sprintf("%d requests have come to the model", n), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.held >= n
	})
}

// needsTools stops the test if the agent has not offered what the scripts call.
func (m *scriptedModel) needsTools(t testing.TB) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, script := range m.scripts {
		for _, turn := range script {
			for _, c := range turn.calls {
				if !m.offered[c.tool] {
					t.Fatalf("%q cannot be tried, nor anything after it: this Hermes does not offer the model the tool %s", name, c.tool)
				}
			}
		}
	}
}

// A hermesScene is a chat with a real Hermes.
type hermesScene struct {
	name  string
	turns []modelTurn
	text  string   // of the answer
	tools []string // those that start, in any order
	ends  sceneEnd

	killed bool // the gateway is, when the scene has come to its end
}

// A sceneEnd is what the client must be told at the end.
type sceneEnd int

const (
	succeeds sceneEnd = iota
	fails
	asHermesSays // Hermes may try again, and fail or not
)

// prompt is the word that a scene's question begins with.
func (s hermesScene) prompt() string { return strings.ReplaceAll(s.name, " ", "-") }

// terminal is a call that runs a command.
func terminal(command string) []modelCall {
	return []modelCall{{"terminal", `{"command": "` + command + `"}`}}
}

// hermesScenes are in an order in which no three answers in a row have text and no usage:
// the sidecar would believe them (contract section 3, "false stop").
var hermesScenes = []hermesScene{
	{
		name:  "plain",
		turns: []modelTurn{{says: []string{"Hello ", "there, `ls -la`\n", "is code."}}},
		text:  "Hello there, `ls -la`\nis code.",
	}, {
		name:  "the provider breaks off once",
		turns: []modelTurn{{says: []string{"Half a "}, ends: breaks}, {says: []string{"sentence."}}},
		ends:  asHermesSays,
	}, {
		name: "tools one after another",
		turns: []modelTurn{
			{says: []string{"Let me ", "see."}, calls: terminal("echo one")},
			{calls: []modelCall{{"read_file", `{"path": "two.txt"}`}}},
			{says: []string{"And now."}, calls: terminal("echo three")},
			{says: []string{"All ", "three ran."}},
		},
		text: "Let me see.\n\nAnd now.\n\nAll three ran.", tools: []string{"terminal", "read_file", "terminal"},
	}, {
		name:  "the provider breaks off each time",
		turns: always(modelTurn{says: []string{"Half a "}, ends: breaks}),
		ends:  asHermesSays,
	}, {
		name: "parallel tools",
		turns: []modelTurn{
			{says: []string{"At once."}, calls: []modelCall{
				{"read_file", `{"path": "one.txt"}`}, {"read_file", `{"path": "two.txt"}`}, {"search_files", `{"pattern": "x"}`},
			}},
			{says: []string{"Done."}},
		},
		text: "At once.\n\nDone.", tools: []string{"read_file", "read_file", "search_files"},
	}, {
		name: "the provider does not stream",
		turns: []modelTurn{
			{says: []string{"Let me see."}, calls: terminal("echo one")},
			{says: []string{"That is all."}, ends: comesWhole},
		},
		tools: []string{"terminal"}, ends: asHermesSays,
	}, {
		name:  "the provider says 500",
		turns: always(modelTurn{ends: refuses}),
		ends:  fails,
	}, {
		name:  "500 after a tool",
		turns: slices.Insert(always(modelTurn{ends: refuses}), 0, modelTurn{says: []string{"Let me see."}, calls: terminal("echo one")}),
		text:  "Let me see.", tools: []string{"terminal"}, ends: fails,
	},
}

// The scenes in which the gateway is killed.
var (
	killedInText = hermesScene{
		name:  "killed in the text",
		turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("echo one")}, {says: []string{"Half a "}, ends: holds}},
		text:  "Let me see.\n\nHalf a ", tools: []string{"terminal"}, ends: fails, killed: true,
	}
	// The command says that it has begun, and ends with the directory.
	killedInTool = hermesScene{
		name:  "killed in a tool",
		turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("mkdir -p begun && touch begun/$$ && while [ -e begun ]; do sleep 0.1; done")}},
		text:  "Let me see.", tools: []string{"terminal"}, ends: fails, killed: true,
	}
)

// dangerous is a command that Hermes asks a person about.
var dangerous = hermesScene{
	name:  "a command that needs approval",
	turns: []modelTurn{{says: []string{"Let me remove it."}, calls: terminal("rm -rf victim")}, {says: []string{"So it is."}}},
	text:  "Let me remove it.\n\nSo it is.", tools: []string{"terminal"},
}

// always is a turn that comes as often as an agent may ask.
func always(turn modelTurn) []modelTurn { return slices.Repeat([]modelTurn{turn}, 20) }
