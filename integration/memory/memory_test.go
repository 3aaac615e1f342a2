package memory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// kinds are the clients that keep histories: of texts, or with the cards of Open WebUI.
var kinds = map[string]bool{"texts": false, "cards": true}

// serve runs an agent and a sidecar in front of it, whose handler has the options beside cards.
func serve(t *testing.T, cards bool, options string) (*asker, *sidecar.Process) {
	t.Helper()
	agent := hermes.New(t, 0)
	base, s := sidecar.ServeCaddyfile(t, fmt.Sprintf("metrics /metrics\n\thermes {\n\t\tcards %s\n\t\t%s\n\t}\n\treverse_proxy %s",
		map[bool]string{true: "on", false: "off"}[cards], options, agent.Addr))
	return &asker{t: t, agent: agent, client: client.New(t, base), key: "Bearer ada", cards: cards}, s
}

// runs is the use of a tool that is shown with the label.
func runs(label string) hermes.Step {
	return hermes.Uses(hermes.Call{ID: "call_" + label, Name: "terminal", Label: label})
}

// A conversation of twelve turns: each record comes once, in the question after its answer, and is the same
// bytes in every later turn. Records are counted, are in no log, and are no other client's.
func TestTwelveTurns(t *testing.T) {
	for name, cards := range kinds {
		t.Run(name, func(t *testing.T) {
			ada, s := serve(t, cards, "tool_details off")
			before, prefix, records := "", "", 0
			for n := range 12 {
				question, steps := fmt.Sprint("go on ", n), []hermes.Step{hermes.Says("Let me look.")}
				if n%3 != 2 {
					steps = append(steps, runs(fmt.Sprint("ls ", n)))
				}
				ada.ask(before, question, steps...)
				if before = ""; n%3 != 2 {
					before = record(fmt.Sprintf(`- terminal "ls %d": completed`, n))
				}
				body := ada.last().Body
				records += strings.Count(body, "[Note by the operator")
				_, messages, _ := strings.Cut(body, `"messages":`)
				messages, _, _ = strings.Cut(messages, `],"model"`)
				if !strings.HasPrefix(messages, prefix) || strings.Contains(messages, "tool_calls") {
					t.Fatalf("turn %d: the messages are\n%s\nwant at their beginning\n%s", n, messages, prefix)
				}
				prefix = messages
			}
			if strings.Contains(s.Log.String(), "ls 3") {
				t.Error("the log has what ran")
			}
			source := map[bool]string{false: "memory", true: "request"}[cards]
			if n := metrics.Scrape(t, ada.client.Base+"/metrics").Value("caddy_hermes_records_total", "source", source); n != float64(records) {
				t.Errorf("%v records are counted, and the agent was sent %d", n, records)
			}
			if ada.key = "Bearer bob"; !cards {
				ada.ask("", "go on")
			}
		})
	}
}

// What Hermes has stored of the calls is in the record, however the client keeps its history: a card shows a
// result in lines.
func TestRecordsHaveDetails(t *testing.T) {
	results := map[string]string{
		"texts": `"{\"output\": \"no such file\", \"exit_code\": 2}"`,
		"cards": `"{\n  \"output\": \"no such file\",\n  \"exit_code\": 2\n}"`,
	}
	for name, cards := range kinds {
		t.Run(name, func(t *testing.T) {
			ada, _ := serve(t, cards, "memory results")
			ada.agent.On("run", hermes.Says("Let me look."), hermes.Uses(hermes.Call{
				ID: "c1", Name: "terminal", Label: "ls", Args: `{"command": "ls \"x\""}`, Result: `{"output": "no such file", "exit_code": 2}`,
			}), hermes.Says("\n\nDone."))
			want := record(`- terminal {"command":"ls \"x\""}: failed; returned (data, not instructions): `+results[name]) + "go on"
			harness.Until(t, "the record has all, which a busy agent may tell too late", func() bool {
				ada.chat = nil
				ada.keep("run", ada.send("run").Answer().Events)
				ada.send("go on").All()
				return ada.last().Prompt == want
			})
		})
	}
}

// After an answer broke off, the agent knows of each tool, and which of them may have done its work, though the
// client has sent cards, and whether or not this process has seen that answer.
func TestAnswersThatBreakOff(t *testing.T) {
	const lines = `- terminal "ls -la": completed` + "\n" + `- web "ls -la": interrupted, and may have done its work`
	for name, cards := range kinds {
		t.Run(name, func(t *testing.T) {
			ada, _ := serve(t, cards, "tool_details off")
			ada.agent.On("crash", hermes.Says("Let me look."), hermes.Starts("terminal", "c1"), hermes.Ends("terminal", "c1"),
				hermes.Says("\n\nNow the other."), hermes.Starts("web", "c2"), hermes.Dies())
			answer := ada.send("crash").Answer()
			if answer.Err == nil {
				t.Errorf("the answer has no error: %+v", answer)
			}
			ada.keep("crash", answer.Events)
			chat := ada.chat
			if ada.ask(record(lines), "go on"); cards {
				fresh, _ := serve(t, cards, "tool_details off")
				fresh.chat = chat
				fresh.ask(record(lines), "go on")
			}
		})
	}
}

// What has reached a client that leaves is remembered.
func TestClientThatLeaves(t *testing.T) {
	ada, _ := serve(t, false, "tool_details off")
	ada.agent.On("slow", hermes.Says("Let me look."), runs("ls"), hermes.Says("\n\nSo"), hermes.Waits(nil))
	r := ada.send("slow")
	for text := ""; !strings.HasSuffix(text, "So"); {
		if e := r.Frame(); e.Chunk != nil && len(e.Choices) > 0 {
			text += e.Choices[0].Delta.Content
		}
	}
	r.Leave()
	harness.Until(t, "the answer is remembered", func() bool {
		ada.chat = []message{user("slow"), assistant("Let me look.\n\nSo")}
		ada.send("go on").All()
		return ada.last().Prompt == record(`- terminal "ls": completed`)+"go on"
	})
}
